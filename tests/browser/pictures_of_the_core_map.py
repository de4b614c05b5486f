"""Takes the pictures of the core map for the documentation: `python docs/pictures/make.py cores`. No part of the tests."""

from __future__ import annotations

import os
import re
from pathlib import Path

from PIL import Image
from playwright.sync_api import expect
from tests.browser.ranks_and_workers import END, LOADER, RANKS, SHOW, TRAIN

CELLS = (RANKS, LOADER, SHOW, TRAIN.format(seconds=25), END)
SHOWN, TRAINING, ENDING = 2, 3, 4


def save(shown, path):
    """In 256 colours: a quarter of the bytes, and no difference to be seen."""
    shown.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def test_pictures_of_the_core_map(notebook, server):
    page = notebook.open(server.add_notebook("cores.ipynb", *CELLS)).page
    notebook.hide_sidebar()
    page.set_viewport_size({"width": 1000, "height": 1600})
    for index in range(SHOWN + 1):
        notebook.run_cell(index)
    notebook.run_cell(TRAINING, wait=False)
    busy = page.locator("[data-testid=core-map-chip][data-busy=true]")
    for short in ("R0", "R1", "L1", "L2"):
        expect(busy.filter(has_text=short)).to_have_text(re.compile(r"\d+ %"), timeout=30_000)
    folder = Path(os.environ["ACCEL_SCREENSHOTS"])
    for theme in ("light", "dark"):
        notebook.set_theme(f"JupyterLab {theme.capitalize()}")
        page.wait_for_load_state("networkidle")
        page.mouse.move(0, 0)
        save(page.locator(".accel-cores"), folder / f"core_map_{theme}.png")
    notebook.run_cell(ENDING)
    assert notebook.errors_in_cells() == []
