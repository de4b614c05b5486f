"""The quickstart runs from top to bottom without a browser, and its page reads offline."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from tests.browser.test_panel_in_jupyterlab import QUICKLY

RUNNER = Path(__file__).resolve().parents[2] / "notebooks" / "run_quickstart.py"


def run(folder, *arguments, timeout_s):
    """Run the runner as `make demo` does; gives the finished process and the page."""
    page = folder / "page.html"
    done = subprocess.run(
        [sys.executable, str(RUNNER), *map(str, arguments), "--html", str(page)],
        capture_output=True, text=True, timeout=timeout_s, env={**os.environ, "IPYTHONDIR": str(folder / "ipython")},
    )  # fmt: skip
    return done, page.read_text(encoding="utf-8")


def scripts_from_elsewhere(page):
    return re.findall(
        r"<(?:script|link|img)[^>]*(?:src|href)=[\"']?(?:https?:)?//[^>]*>|\bimport\b[^;]*https?://", page
    )


def notebook_of(folder, *cells):
    path = folder / "small.ipynb"
    nbformat.write(new_notebook(cells=list(cells)), path)
    return path


def test_headings_and_outputs_are_printed_and_the_page_needs_no_internet(tmp_path):
    widget = "import ipywidgets\nipywidgets.IntSlider(description='a slider')"
    notebook = notebook_of(
        tmp_path, new_markdown_cell("## One heading\n\ntext"), new_code_cell("6 * 7"), new_code_cell("print('said')"),
        new_code_cell("%pwd"), new_code_cell(widget),
    )  # fmt: skip
    done, page = run(tmp_path, notebook, timeout_s=100)
    assert done.returncode == 0, done.stderr
    assert re.search(r"One heading\n=+\n42\nsaid\n>>> %pwd\n.+\n\(a live panel: .+\)\n", done.stdout)
    assert f"small.ipynb ran in {re.search(r'ran in (.+) s', done.stdout).group(1)} s" in done.stdout
    assert scripts_from_elsewhere(page) == []
    assert "vnd.jupyter.widget" not in page
    assert "IntSlider" in page


def test_a_cell_that_fails_ends_the_run_with_its_traceback(tmp_path):
    notebook = notebook_of(
        tmp_path, new_code_cell("raise ValueError('on purpose')"), new_code_cell("print('after')")
    )
    done, page = run(tmp_path, notebook, timeout_s=100)
    assert done.returncode == 1
    assert "ValueError: on purpose" in done.stderr
    assert "after" not in done.stdout
    assert "on purpose" in page


def with_shorter_trials(folder):
    """The quickstart with trials of one relaunch, of a few seconds, and its own loop once before and once after."""
    cells = nbformat.read(RUNNER.parent / "quickstart.ipynb", as_version=4).cells
    for cell in cells:
        cell.source = cell.source.replace(
            "train(epochs=2), number=1, repeat=3", "train(epochs=1), number=1, repeat=1"
        )
    path = folder / "quickstart.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(QUICKLY), *cells]), path)
    return [path]


@pytest.mark.compiles
@pytest.mark.parametrize(
    "of_folder",
    [with_shorter_trials, pytest.param(lambda folder: [], marks=pytest.mark.whole, id="as_it_is")],
)
def test_the_quickstart_shows_profile_ladder_export_and_its_own_loop_before_and_after(tmp_path, of_folder):
    done, page = run(tmp_path, *of_folder(tmp_path), timeout_s=560)
    assert done.returncode == 0, done.stderr
    for phase in ("Forward", "Backward", "Optimizer"):  # those below 1 % of the step are folded away
        assert re.search(rf"^ +{phase}: +[\d.]+ %", done.stdout, re.MULTILINE)
    assert "aten::" in done.stdout
    assert re.search(r"^ *\S compile_model\b", done.stdout, re.MULTILINE)  # its row in the ladder
    assert re.search(r"\d+\.\d+× \[\d+\.\d+, \d+\.\d+\]", done.stdout)
    claim, clock = re.search(r"the trial said:  (.+)\nthe clock says:  (.+)", done.stdout).groups()
    assert re.search(r"\d+\.\d+", claim)
    assert re.fullmatch(r"\d+\.\d\d× \(\d+\.\d\d s before, \d+\.\d\d s with the plan kept\)", clock)
    assert "memory_format=torch.channels_last" in done.stdout
    assert scripts_from_elsewhere(page) == []


def test_the_lab_on_model_parallelism_shows_three_ways_and_that_each_gives_what_one_process_gives(tmp_path):
    done, page = run(tmp_path, RUNNER.parent / "model_parallel.ipynb", timeout_s=280)
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"^rank 1: weights \(512, 256\) and \(256, 512\), [\d,]+ of [\d,]+ bytes", done.stdout, re.MULTILINE
    )
    assert re.search(r"^1f1b +8 +11% +\d+% +[\d.]+$", done.stdout, re.MULTILINE)
    assert re.search(
        r"^rank 0: [\d,]+ bytes kept between steps, [\d,]+ with plain DDP", done.stdout, re.MULTILINE
    )
    assert scripts_from_elsewhere(page) == []
