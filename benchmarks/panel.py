"""How fast the panel is in a real JupyterLab, and how long anything that a notebook waits for stays silent.

`first_paint_s`: from running `%accel panel` to its bar with the step time on the page, in a kernel that has not shown one
before, two seconds after the profile, as by somebody who reads its report; `again_s`: the same in another cell. `switch_ms`:
from a click on a switch to the plan on the bar, by the kernel; `tab_ms`: from a click on a tab to that tab, by the page alone.
`try_ms`: from a click on Try to the first word of it.
`updates_per_s`: messages that change the bar or the ladder, while a trial's two workers step and fifty changes a second are
announced in the kernel. `messages` and `kilobytes` go to the page when the panel is opened. Medians of some turns.

`silence_..._s`: the longest time without a change on the page in each wait, on a quiet machine and with two processes that
take both cores (`..._busy_s`). Heights in pixels, at pages so wide: of each tab of the panel, and of two outputs of the
quickstart, `height_report_...` of its profile and `height_ladder_...` of a trial of four plans.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import nbformat
from playwright.sync_api import sync_playwright
from tests.browser.conftest import Notebook, jupyterlab

from benchmarks.machine_line import report
from benchmarks.waits import PROFILE, QUICK, SETUP, WAITS, busy, silences

PANEL, STORM = 2, 3
WIDTHS = (1400, 800, 400)
WATCHED = ("BarPanel", "LadderPanel")
QUICKSTART = Path(__file__).resolve().parents[1] / "notebooks" / "quickstart.ipynb"
FOUR_PLANS = "%accel try channels_last {fast} {fast}+steady_allocator set_to_none --budget-s 60"
TELL = """
import threading, time
from accel.current import current_workbench
def tell(seconds):
    until, bench = time.monotonic() + seconds, current_workbench()
    while time.monotonic() < until:
        bench.tell("trial")
        time.sleep(0.02)
threading.Thread(target=tell, args=(6,), daemon=True).start()
"""
TURNS = 5
CHROMIUM = os.environ.get("ACCEL_CHROMIUM", "/usr/bin/chromium")
# Milliseconds from an action in the page until something is seen there, frame by frame.
UNTIL = """async ([act, seen]) => {
  const began = performance.now();
  (0, eval)(act);
  while (!(0, eval)(seen)) {
    if (performance.now() - began > 30000) throw new Error("never seen: " + seen);
    await new Promise(requestAnimationFrame);
  }
  return performance.now() - began;
}"""
RUN = (
    "window.jupyterapp.shell.currentWidget.content.activeCellIndex = {cell};"
    "window.jupyterapp.commands.execute('notebook:run-cell')"
)
HEADLINE = (
    "document.querySelectorAll('.accel-bar').length >= {bars}"
    " && [...document.querySelectorAll('.accel-bar-headline')].at(-1)?.textContent.length > 0"
)
SWITCH = "document.querySelector(\"input[role='switch'][data-name='fused_optimizer']\").click()"
PLAN = "document.querySelector(\"[data-testid='plan']\").textContent.includes('fused_optimizer') === {is_on}"
TAB = "document.querySelector(\"[data-tab='{tab}'].accel-tab-button\").click()"
IS_TAB = "getComputedStyle(document.querySelector('.accel-tab-{tab}')).display !== 'none'"
TRY = "document.querySelector(\"[data-testid='try']\").click()"
BEAT = "document.querySelector(\"[data-testid='beat']\").textContent.length > 0"
STOP = "document.querySelector(\"[data-testid='stop']\").click()"
IS_OVER = "document.querySelector(\"[data-testid='beat']\").textContent === ''"


class Wire:
    """What the page's sockets receive; `updates` are those of the bar and of the ladder."""

    def __init__(self, page: Any) -> None:
        self.messages = self.bytes = self.updates = 0
        self._watched: set[str] = set()  # the bar's comm and the ladder's
        page.on("websocket", lambda socket: socket.on("framereceived", self._hear))

    def _hear(self, payload: str | bytes) -> None:
        self.messages += 1
        self.bytes += len(payload)
        kind, content = message_of(payload)
        comm, data = content.get("comm_id", ""), content.get("data", {})
        if kind == "comm_open" and data.get("state", {}).get("_anywidget_id", "").endswith(WATCHED):
            self._watched.add(comm)
        elif kind == "comm_msg" and comm in self._watched and data.get("method") == "update":
            self.updates += 1


def message_of(payload: str | bytes) -> tuple[str, dict[str, Any]]:
    """Type and content of a message, in either of the kernel's protocols on the socket."""
    if isinstance(payload, str):
        message = json.loads(payload)
        return message.get("header", {}).get("msg_type", ""), message.get("content", {})
    count = int.from_bytes(payload[:8], "little")
    ends = [int.from_bytes(payload[8 * at : 8 * at + 8], "little") for at in range(1, count + 1)]
    _channel, header, _parent, _metadata, content, *_ = (payload[at:end] for at, end in pairwise(ends))
    return json.loads(header).get("msg_type", ""), json.loads(content)


@contextmanager
def opened(cells: tuple[str, ...]) -> Iterator[tuple[Any, Notebook, Wire]]:
    """These cells in a JupyterLab of its own."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        (folder / "notebooks").mkdir()
        with jupyterlab(folder / "notebooks", folder) as server:
            browser = playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
            )
            page = browser.new_page(viewport={"width": 1400, "height": 2400})
            wire = Wire(page)
            try:
                notebook = Notebook(page, server).open(server.add_notebook("panel.ipynb", *cells))
                notebook.hide_sidebar()
                yield page, notebook, wire
            finally:
                browser.close()


def in_the_browser(turns: int) -> dict[str, float]:
    """Every figure of the page."""
    with opened((SETUP, PROFILE, "%accel panel", TELL, "%accel panel")) as (page, notebook, wire):
        notebook.run_cell(0)
        notebook.run_cell(1)
        page.wait_for_timeout(2000)
        before = (wire.messages, wire.bytes)
        figures = {
            "first_paint_s": page.evaluate(UNTIL, [RUN.format(cell=PANEL), HEADLINE.format(bars=1)]) / 1e3
        }
        page.wait_for_selector(".accel-board input[role='switch']", state="attached", timeout=60_000)
        page.wait_for_timeout(1000)
        figures |= {"messages": wire.messages - before[0], "kilobytes": (wire.bytes - before[1]) / 1024}
        figures |= heights(page)
        figures |= reactions(page, turns)
        figures["updates_per_s"] = updates(page, notebook, wire)
        figures["again_s"] = page.evaluate(UNTIL, [RUN.format(cell=4), HEADLINE.format(bars=2)]) / 1e3
        return figures


def heights(page: Any) -> dict[str, float]:
    """Of each tab, at pages of several widths."""
    found = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 2400})
        for tab in ("profile", "speed_up", "machine"):
            page.evaluate(UNTIL, [TAB.format(tab=tab), IS_TAB.format(tab=tab)])
            page.wait_for_timeout(400)
            found[f"height_{tab}_{width}_px"] = round(
                page.locator(".accel-workbench").bounding_box()["height"]
            )
    page.set_viewport_size({"width": 1400, "height": 2400})
    return found


def heights_of_outputs() -> dict[str, float]:
    """Of the quickstart's report on its profile, and of a ladder of four plans."""
    cells = [
        each.source for each in nbformat.read(QUICKSTART, as_version=4).cells if each.cell_type == "code"
    ]
    first_try = next(number for number, cell in enumerate(cells) if cell.startswith("%accel try"))
    found = {}
    with opened((*cells[:first_try], FOUR_PLANS)) as (page, notebook, _):
        for number, cell in enumerate((*cells[:first_try], FOUR_PLANS)):
            notebook.run_cell(number)
            name = "report" if cell.startswith("%%accel profile") else "ladder" if cell is FOUR_PLANS else ""
            for width in WIDTHS[:2] if name else ():
                page.set_viewport_size({"width": width, "height": 2400})
                page.wait_for_timeout(400)
                output = page.locator(".jp-Cell.jp-mod-active .jp-OutputArea-output").last
                found[f"height_{name}_{width}_px"] = round(output.bounding_box()["height"])
    return found


def reactions(page: Any, turns: int) -> dict[str, float]:
    """From a click to what is seen of it."""
    switch, tab, tried = [], [], []
    for _ in range(turns):
        tab.append(page.evaluate(UNTIL, [TAB.format(tab="machine"), IS_TAB.format(tab="machine")]))
        page.evaluate(UNTIL, [TAB.format(tab="speed_up"), IS_TAB.format(tab="speed_up")])
        switch.append(page.evaluate(UNTIL, [SWITCH, PLAN.format(is_on="true")]))
        switch.append(page.evaluate(UNTIL, [SWITCH, PLAN.format(is_on="false")]))
    page.evaluate(UNTIL, [SWITCH, PLAN.format(is_on="true")])
    for _ in range(min(turns, 3)):
        tried.append(page.evaluate(UNTIL, [TRY, BEAT]))
        page.get_by_test_id("stop").wait_for()
        page.evaluate(UNTIL, [STOP, IS_OVER])
        page.wait_for_timeout(500)
    return {"switch_ms": median(switch), "tab_ms": median(tab), "try_ms": median(tried)}


def updates(page: Any, notebook: Notebook, wire: Wire) -> float:
    """Messages a second while two workers step."""
    page.evaluate(
        UNTIL, [TRY, "document.querySelector(\"[data-testid='beat']\").textContent.includes('measuring')"]
    )
    notebook.run_cell(STORM)
    page.wait_for_timeout(500)
    before = wire.updates
    page.wait_for_timeout(4000)
    found = (wire.updates - before) / 4
    page.evaluate(UNTIL, [STOP, IS_OVER])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="one turn, three waits, no busy processes, nothing stored"
    )
    options = parser.parse_args()
    os.environ["ACCEL_HISTORY"] = "off"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installation is compiled
    subprocess.run([sys.executable, "-c", "import accel_widgets.workbench_panel"], check=True)
    figures = in_the_browser(1 if options.quick else TURNS)
    if not options.quick:
        figures |= heights_of_outputs()
    said: dict[str, str] = {}
    for processes, word in ((0, ""), (2, "_busy"))[: 1 if options.quick else 2]:
        with busy(processes):
            for name, silence in silences(
                QUICK if options.quick else tuple(name for name, *_ in WAITS)
            ).items():
                key = f"silence_{name.replace(' ', '_')}{word}_s"
                figures[key], said[key] = silence.seconds, silence.during
    rounded = {
        name: float(f"{value:.3g}") if value < 1000 else round(value) for name, value in figures.items()
    }
    report("panel", rounded, is_full_run=not options.quick, during=said)


if __name__ == "__main__":
    main()
