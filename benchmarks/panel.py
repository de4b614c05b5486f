"""How fast the panel is in a real JupyterLab, and how long anything that a notebook waits for stays silent.

`first_paint_s`: from running `%accel panel` to its bar with the step time on the page, in a kernel that has not shown one
before; `again_s`: the same in another cell. `switch_ms`: from a click on a switch to the plan on the bar, by the kernel;
`tab_ms`: from a click on a tab to that tab, by the page alone. `try_ms`: from a click on Try to the first word of it.
`updates_per_s`: messages that change the bar, while a trial's two workers step and fifty changes a second are announced in the
kernel. `messages` and `kilobytes` go to the page when the panel is opened. Medians of some turns.

`silence_..._s`: the longest time without a change on the page in each wait, on a quiet machine and with two processes that
take both cores (`..._busy_s`). Height in pixels of each tab at 1400 and at 400.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import sync_playwright
from tests.browser.conftest import Notebook, jupyterlab

from benchmarks.machine_line import report
from benchmarks.waits import PROFILE, QUICK, SETUP, WAITS, busy, silences

PANEL, STORM = 2, 3
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
    """What the page's sockets receive."""

    def __init__(self, page: Any) -> None:
        self.messages = self.bytes = 0
        page.on("websocket", lambda socket: socket.on("framereceived", self._hear))

    def _hear(self, payload: str | bytes) -> None:
        self.messages += 1
        self.bytes += len(payload)


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
    """Of each tab, at two widths of the page."""
    found = {}
    for width in (1400, 400):
        page.set_viewport_size({"width": width, "height": 2400})
        for tab in ("profile", "speed_up", "machine"):
            page.evaluate(UNTIL, [TAB.format(tab=tab), IS_TAB.format(tab=tab)])
            page.wait_for_timeout(400)
            found[f"height_{tab}_{width}_px"] = round(
                page.locator(".accel-workbench").bounding_box()["height"]
            )
    page.set_viewport_size({"width": 1400, "height": 2400})
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
    before = wire.messages
    page.wait_for_timeout(4000)
    found = (wire.messages - before) / 4
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
