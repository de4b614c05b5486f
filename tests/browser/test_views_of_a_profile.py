"""The report and the timeline of a profile where users read them: in JupyterLab, and in a page exported from it, offline."""

from __future__ import annotations

import re

import nbformat
import pytest
from notebooks.run_quickstart import write_page
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

MODEL = """
import torch
from torch import nn
torch.manual_seed(0)
images, labels = torch.randn(640, 1, 28, 28), torch.randint(10, (640,))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=32)
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 26 * 26, 10))
optimizer = torch.optim.Adam(model.parameters())
criterion = nn.CrossEntropyLoss()
%load_ext accel
"""
PROFILE = """%%accel profile --stacks --memory -o profile
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""
CELLS = (MODEL, PROFILE, "timeline = profile.panel()\ntimeline", "timeline.selected, timeline.query")
REPORT, TIMELINE, CHOSEN = 1, 2, 3
HEADINGS = ("Where a step goes", "Most expensive operations", "Most expensive modules")


@pytest.fixture(scope="module")
def notebook(shared_notebook, server):
    shared_notebook.open(server.add_notebook("views.ipynb", *CELLS))
    for index in range(TIMELINE + 1):
        shared_notebook.run_cell(index)
    assert shared_notebook.errors_in_cells() == []
    return shared_notebook


def test_a_slice_found_and_clicked_in_the_timeline_shows_its_line_and_is_known_to_python(notebook):
    page = notebook.page
    expect(page.get_by_test_id("timeline-canvas")).to_be_visible()
    page.get_by_test_id("timeline-search").fill("aten::conv2d")
    expect(page.get_by_test_id("timeline-found")).to_contain_text("found")
    page.get_by_test_id("timeline-next").click()
    details = page.get_by_test_id("timeline-details")
    expect(details).to_contain_text("aten::conv2d")
    expect(details).to_contain_text(re.compile(r"cell \[\d+\], line 4: loss = criterion\(model\(x\), y\)"))
    for key in (
        "+",
        "x",
        "d",
        "d",
        "Shift+Enter",
        "ArrowDown",
    ):  # JupyterLab must not take it for a command on cells
        page.get_by_test_id("timeline-canvas").press(key)
    assert (
        len(notebook.outputs(TIMELINE)) == 2
    )  # the widget, and what stands in for it: neither cut nor run again
    notebook.run_cell(CHOSEN)
    chosen, query = eval(notebook.outputs(CHOSEN)[0]["data"]["text/plain"])
    assert chosen >= 0
    assert query == "aten::conv2d"


def test_exported_and_opened_without_a_network_the_report_is_all_there(notebook, tmp_path, browser):
    saved = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    for index in (REPORT, TIMELINE):
        saved.cells[index].outputs = [nbformat.from_dict(output) for output in notebook.outputs(index)]
    write_page(saved, tmp_path / "report.html", title="report")
    offline = browser.new_context(offline=True).new_page()  # one of its own: JupyterLab's page goes on
    asked: list[str] = []
    offline.on("request", lambda request: asked.append(request.url))
    offline.goto((tmp_path / "report.html").as_uri())
    for heading in HEADINGS:
        expect(offline.get_by_text(heading).first).to_be_visible()
        assert offline.get_by_text(heading).count() == 2  # the report, and what stands in for the timeline
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    offline.context.close()
