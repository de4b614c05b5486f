"""What is pressed in a panel stays there: JupyterLab listens at the document, where arrows change the cell and x cuts it."""

from __future__ import annotations

import pytest

from accel_widgets.ladder_panel import LadderPanel
from accel_widgets.op_table_panel import OpTablePanel
from accel_widgets.telemetry_panel import TelemetryPanel

pytestmark = pytest.mark.browser

LISTEN = """() => {
  window.heard = [];
  document.addEventListener("keydown", (event) => window.heard.push(event.key));
  for (const panel of [...document.querySelectorAll(".accel")]) {  // whatever stands in a panel, ipywidgets' own controls too
    panel.hidden = false;
    panel.insertAdjacentHTML("beforeend", "<input type='number' value='1' data-testid='inside'>");
  }
  document.body.insertAdjacentHTML("beforeend", "<button data-testid='outside'>a cell</button>");
}"""


@pytest.mark.parametrize("panel", [OpTablePanel, LadderPanel, TelemetryPanel])
def test_bare_keys_stay_in_a_panel_and_shortcuts_reach_the_notebook(show, panel):
    page = show(panel).page
    page.evaluate(LISTEN)
    inside = page.get_by_test_id("inside").first
    inside.press("ArrowUp")
    assert inside.input_value() == "2"
    for key in ("ArrowUp", "x", "d", "Delete", "Shift+Enter", "Enter", "Space"):
        page.keyboard.press(key)
    assert page.evaluate("heard.filter((key) => key !== 'Shift')") == []
    for key in ("Control+s", "Escape"):
        inside.press(key)
    page.get_by_test_id("outside").press("x")
    assert page.evaluate("heard.filter((key) => key !== 'Control' && key !== 'Shift')") == [
        "s",
        "Escape",
        "x",
    ]


def test_two_panels_in_a_page_listen_once(show, page):
    show(OpTablePanel)
    before = page.evaluate("Object.getOwnPropertySymbols(document.body).length")
    esm = str(LadderPanel._esm)
    page.evaluate(
        "async (esm) => { await import(URL.createObjectURL(new Blob([esm], { type: 'text/javascript' }))); }",
        esm,
    )
    assert page.evaluate("Object.getOwnPropertySymbols(document.body).length") == before == 1
