"""Takes the pictures of the ranks' lanes for the documentation: `python docs/pictures/make.py ranks`. No part of the tests."""

from __future__ import annotations

import os
from pathlib import Path

from PIL import Image
from playwright.sync_api import expect
from tests.browser.test_ddp_in_jupyterlab import PREPARE, RUN, SETUP, TRAIN, wait_until_it_trains

UNEVEN = TRAIN.replace(
    "for epoch", "import time, torch.distributed as dist\nslow_s = 0.004 * dist.get_rank()\nfor epoch"
).replace("        optimizer.step()", "        time.sleep(slow_s)\n        optimizer.step()")


def save(shown, path):
    """In 256 colours: a quarter of the bytes, and no difference to be seen."""
    shown.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def test_pictures_of_ranks(notebook, server):
    page = notebook.open(server.add_notebook("ranks.ipynb", SETUP, UNEVEN)).page
    notebook.hide_sidebar()
    page.set_viewport_size({"width": 1000, "height": 1200})
    notebook.run_cell(PREPARE)
    notebook.run_cell(RUN)
    lanes = page.locator(".accel-lanes")
    wait_until_it_trains(lanes)
    expect(lanes.get_by_test_id("ddp-notes")).to_contain_text("holds the others up", timeout=30_000)
    folder = Path(os.environ["ACCEL_SCREENSHOTS"])
    for theme in ("light", "dark"):
        notebook.set_theme(f"JupyterLab {theme.capitalize()}")
        page.wait_for_load_state("networkidle")
        page.mouse.move(0, 0)
        save(lanes, folder / f"ddp_lanes_{theme}.png")
    lanes.get_by_test_id("ddp-stop").click()
    expect(lanes.get_by_test_id("ddp-line")).to_contain_text("Stopped on 2 ranks", timeout=60_000)
