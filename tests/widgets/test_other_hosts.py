"""Panels as VS Code and Colab host them: a module from a blob, no file and no address besides, no variable of JupyterLab."""

from __future__ import annotations

import os
import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.widgets.conftest import LOAD, given
from tests.widgets.test_every_panel import STATES

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


TEXT = """(isLast) => {
  const shown = [...document.body.querySelectorAll(":scope > div")].at(-1), text = shown.innerText.trim();
  if (!isLast) { cleanup(); shown.remove(); }
  return text;
}"""


def test_scripts_and_sheets_load_nothing():
    for panel in STATES:
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
def test_each_panel_shows_itself_where_nothing_else_can_be_loaded_and_its_text_can_be_read(
    page, tmp_path, monkeypatch, host
):
    monkeypatch.setenv("ACCEL_HISTORY", str(tmp_path / "history.sqlite"))
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
    for panel, state in STATES.items():
        module, shown = [str(panel._esm), panel._css], state(tmp_path)
        frame.evaluate(LOAD, [*module, given(panel, {})])
        empty = frame.evaluate(TEXT, False)
        frame.evaluate(LOAD, [*module, given(panel, shown)])
        assert frame.evaluate(TEXT, True) not in {"", empty}, panel
    assert [url for url in asked if not url.startswith(("blob:", "data:", "about:"))] == []
    assert said == []
    if os.environ.get("ACCEL_SCREENSHOTS"):
        page.set_viewport_size({"width": 1020, "height": 3000})
        page.screenshot(path=f"{os.environ['ACCEL_SCREENSHOTS']}/{host}.png")
    found = Axe().run(frame, options={"runOnly": ["color-contrast"]}).response["violations"]
    assert [(node["html"], node["failureSummary"]) for each in found for node in each["nodes"]] == []
