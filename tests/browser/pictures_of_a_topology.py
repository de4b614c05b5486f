"""Takes the pictures of a topology for the documentation: `python docs/pictures/make.py topology`. No part of the tests."""

from __future__ import annotations

import os
from pathlib import Path

from PIL import Image

MATRIX = Path(__file__).parents[1] / "machine" / "topology" / "course_8_gpus.txt"
CELLS = ("%load_ext accel", "%accel topology --from matrix.txt", "_.figure()")


def save(shown, path):
    """In 256 colours: a quarter of the bytes, and no difference to be seen."""
    shown.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def test_pictures_of_a_topology(notebook, server):
    (server.folder / "matrix.txt").write_text(MATRIX.read_text())
    page = notebook.open(server.add_notebook("topology.ipynb", *CELLS)).page
    notebook.hide_sidebar()
    page.set_viewport_size({"width": 1180, "height": 1330})
    notebook.run_all()
    assert notebook.errors_in_cells() == []
    folder = Path(os.environ["ACCEL_SCREENSHOTS"])
    for theme in ("light", "dark"):
        notebook.set_theme(f"JupyterLab {theme.capitalize()}")
        page.wait_for_load_state("networkidle")
        page.locator(".js-plotly-plot .annotation").first.wait_for()
        page.mouse.move(0, 0)
        save(page.locator(".jp-WindowedPanel-inner, .jp-Notebook").first, folder / f"topology_{theme}.png")
