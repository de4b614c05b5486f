"""Panels as VS Code and Colab host them: a module from a blob, no file and no address besides, no variable of JupyterLab."""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path

import anywidget
import pytest
from axe_playwright_python.sync_playwright import Axe

import accel_widgets
from accel.workbench import Workbench
from accel_widgets import WorkbenchPanel
from tests.widgets.conftest import LOAD, _sendable
from tests.widgets.test_ladder_panel import FAILED, FASTER, SLOWER, trial
from tests.workbench.test_keep_and_undo_words import CELL, small_training

pytestmark = pytest.mark.browser

# Whatever a view asks for beyond its own text, the browser itself refuses.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src data: blob:"
)
OUTPUT = """<!DOCTYPE html><html lang="en" {theme}><head><title>output</title>
<meta http-equiv="Content-Security-Policy" content="{policy}"></head>
<body class="{kind}" {of_vscode} style="{colours}"><main></main></body></html>"""
VSCODE = "--vscode-editor-foreground:{0};--vscode-editor-background:{1};color:{0};background:{1}"
COLAB = "color:{0};background:{1}"
# The page of an output, and what the system prefers: a notebook may be dark on a light system, and light on a dark one.
HOSTS = {
    "vscode-dark": ("", "vscode-dark", VSCODE.format("#d4d4d4", "#1e1e1e"), "light"),
    "vscode-light": ("", "vscode-light", VSCODE.format("#333333", "#ffffff"), "dark"),
    "vscode-high-contrast": ("", "vscode-high-contrast", VSCODE.format("#ffffff", "#000000"), "light"),
    "colab-dark": ('theme="dark"', "", COLAB.format("#e3e3e3", "#383838"), "light"),
    "colab-light": ('theme="light"', "", COLAB.format("#1f1f1f", "#ffffff"), "dark"),
}


def panels():
    """Every class of panel that anywidget shows."""
    for path in sorted(Path(accel_widgets.__file__).parent.glob("*_panel.py")):
        import_module(f"accel_widgets.{path.stem}")
    ours = [
        each for each in anywidget.AnyWidget.__subclasses__() if each.__module__.startswith("accel_widgets.")
    ]
    return sorted(ours, key=lambda panel: panel.__name__)


@pytest.fixture(scope="module")
def drawn():
    """Each class with the traits of one that shows a profile, or else its own from the start."""
    bench = Workbench(small_training(), spare_workers=0)
    bench.profile(CELL)
    panel = WorkbenchPanel(bench)
    panel.timeline.is_open = panel.cores.is_open = True
    panel.ladder.trials = [trial(FASTER, SLOWER, FAILED)]
    states = {}
    for kind in panels():
        shown = next((child for child in panel.children if isinstance(child, kind)), None)
        states[kind] = {
            name: _sendable(getattr(shown, name) if shown else trait.default())
            for name, trait in kind.class_own_traits(sync=True).items()
        }
    yield states
    panel.close()
    bench.close()


def test_scripts_and_sheets_load_nothing():
    assert len(panels()) >= 10
    for panel in panels():
        script, sheet = str(panel._esm), panel._css
        assert "export default" in script, panel
        assert (
            re.findall(r"^\s*import\b|\bimport\s*\(|\bfetch\s*\(|localStorage|XMLHttpRequest", script, re.M)
            == []
        ), panel
        addresses = re.findall(
            r"https?://[^\s\"'`]+", script.replace("http://www.w3.org/2000/svg", "") + sheet
        )
        assert addresses == [], panel
        assert re.findall(r"@import|url\((?!['\"]?data:)", sheet) == [], panel


@pytest.mark.parametrize("host", HOSTS)
def test_each_panel_shows_itself_where_nothing_else_can_be_loaded_and_its_text_can_be_read(page, drawn, host):
    theme, kind, colours, preferred = HOSTS[host]
    said, asked = [], []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: asked.append(request.url))
    page.emulate_media(color_scheme=preferred)
    of_vscode = f'data-vscode-theme-kind="{kind}"' if kind else ""
    output = OUTPUT.format(theme=theme, policy=POLICY, kind=kind, of_vscode=of_vscode, colours=colours)
    frame = page.main_frame
    if host.startswith("colab"):  # each cell's output is a frame of its own, which cannot reach the page
        page.set_content('<iframe sandbox="allow-scripts" style="width:1000px;height:3000px"></iframe>')
        page.locator("iframe").evaluate("(frame, text) => { frame.srcdoc = text; }", output)
        frame = page.wait_for_selector("iframe").content_frame()
        frame.wait_for_selector("main", state="attached")
    else:
        page.set_content(output)
    for panel, state in drawn.items():
        frame.evaluate(LOAD, [str(panel._esm), panel._css, state])
    empty = frame.evaluate(
        "() => [...document.body.querySelectorAll(':scope > div')].map((el) => el.childElementCount)"
    )
    assert len(empty) == len(drawn)
    assert 0 not in empty
    assert [url for url in asked if not url.startswith(("blob:", "data:", "about:"))] == []
    assert said == []
    if os.environ.get("ACCEL_SCREENSHOTS"):
        page.set_viewport_size({"width": 1020, "height": 3000})
        page.screenshot(path=f"{os.environ['ACCEL_SCREENSHOTS']}/{host}.png")
    found = Axe().run(frame, options={"runOnly": ["color-contrast"]}).response["violations"]
    assert [node["html"] for each in found for node in each["nodes"]] == []
