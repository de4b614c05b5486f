"""Takes the pictures of report and timeline for the documentation: `python docs/pictures/make.py`. No part of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from notebooks.run_quickstart import write_page
from PIL import Image

BEGINNINGS = ("import time", "def train", "%load_ext")
PROFILE = "%%accel profile --shapes --stacks --memory -o profile\ntrain(epochs=2)"
CELLS = (PROFILE, "profile.panel()")
FOUND = "convolution"
THEMES = ("light", "dark")


def cells_of_the_quickstart():
    """The data and the model, the loop."""
    quickstart = nbformat.read(Path(__file__).parents[2] / "notebooks" / "quickstart.ipynb", as_version=4)
    return [cell.source for cell in quickstart.cells if cell.source.startswith(BEGINNINGS)]


def save(shown, path):
    """In 256 colours: a quarter of the bytes, and no difference to be seen."""
    shown.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


@pytest.fixture
def folder():
    return Path(os.environ["ACCEL_SCREENSHOTS"])


def search_the_timeline(page):
    """The convolutions are found, one in the middle of the run is chosen, with what runs round it."""
    page.get_by_test_id("timeline-search").fill(FOUND)
    count = int(page.get_by_test_id("timeline-found").inner_text().split()[0])
    for key in ["n"] * (count // 2) + ["-"] * 2:
        page.get_by_test_id("timeline-canvas").press(key)


def test_pictures_of_report_and_timeline(notebook, server, folder, browser, tmp_path):
    cells = (*cells_of_the_quickstart(), *CELLS)
    page = notebook.open(server.add_notebook("report.ipynb", *cells)).page
    notebook.hide_sidebar()
    page.set_viewport_size({"width": 1180, "height": 1500})
    notebook.run_all()
    assert notebook.errors_in_cells() == []
    search_the_timeline(page)
    report = page.locator(".jp-OutputArea-output.jp-RenderedHTML").filter(has_text="Where a step goes").first
    for theme in THEMES:
        notebook.set_theme(f"JupyterLab {theme.capitalize()}")
        page.wait_for_load_state("networkidle")
        page.mouse.move(0, 0)
        save(page.locator(".accel-timeline"), folder / f"timeline_{theme}.png")
        report.evaluate("(shown) => shown.scrollIntoView({ block: 'start' })")
        save(page, folder / f"report_{theme}.png")
    exported = notebook.outputs(len(cells) - len(CELLS))
    offline = browser.new_context(offline=True, viewport={"width": 1180, "height": 1500}).new_page()
    for theme in THEMES:
        outputs = [nbformat.from_dict(output) for output in exported]
        saved = new_notebook(cells=[new_code_cell(PROFILE, outputs=outputs)])
        write_page(saved, tmp_path / f"{theme}.html", title="report", theme=theme)
        offline.goto((tmp_path / f"{theme}.html").as_uri())
        save(offline, folder / f"report_exported_{theme}.png")
    offline.context.close()
