"""Takes the pictures of the documentation from the real product: `python docs/pictures/make.py`. No part of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
from PIL import Image
from playwright.sync_api import expect

TRIED = ("channels_last", "fused_optimizer", "steady_allocator")
BEGINNINGS = ("import time", "def train", "%load_ext", "%%accel profile", "%accel panel")


def cells_of_the_quickstart():
    """What it takes to have the panel: the data and the model, the loop, the profile."""
    quickstart = nbformat.read(Path(__file__).parents[2] / "notebooks" / "quickstart.ipynb", as_version=4)
    return [cell.source for cell in quickstart.cells if cell.source.startswith(BEGINNINGS)]


def save(page, path):
    """The panel alone, in 256 colours: a quarter of the bytes, and no difference to be seen."""
    page.mouse.move(0, 0)
    page.locator(".accel-workbench").screenshot(path=path)
    Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def test_pictures_of_the_panel(notebook, server):
    page = notebook.open(server.add_notebook("pictures.ipynb", *cells_of_the_quickstart())).page
    notebook.hide_sidebar()
    page.set_viewport_size({"width": 1180, "height": 4200})
    notebook.run_all()
    assert notebook.errors_in_cells() == []
    page.get_by_test_id("tab-speed_up").click()
    page.get_by_test_id("others").locator("> summary").click()
    for name in TRIED:
        page.locator(f"input[data-name='{name}']").check()
    page.get_by_test_id("others").locator("> summary").click()
    page.get_by_role("button", name="Try each").click()
    notebook.expect_trial_to_be_done()
    page.get_by_test_id("keep").first.click()  # best first
    expect(page.get_by_test_id("is-live").first).to_be_visible()
    folder = Path(os.environ["ACCEL_SCREENSHOTS"])
    for theme in ("light", "dark"):
        notebook.set_theme(f"JupyterLab {theme.capitalize()}")
        page.wait_for_load_state("networkidle")
        save(page, folder / f"panel_{theme}.png")
