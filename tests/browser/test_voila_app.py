"""`accel app`: a notebook by Voila, behind its token, a trial at a click; Ctrl-C leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
import uuid
from urllib.error import HTTPError

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import expect
from tests.browser.test_panel_in_jupyterlab import MODEL, PROFILE, start_trial

pytestmark = pytest.mark.browser


@pytest.fixture
def app(tmp_path):
    """The running program, and the address that it prints."""
    cells = [MODEL, "%load_ext accel", PROFILE, "%accel panel"]
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    nbformat.write(notebook, tmp_path / "training.ipynb")
    program = subprocess.Popen(
        [sys.executable, "-m", "accel.cli", "app", "training.ipynb"], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "JUPYTER_CONFIG_DIR": str(tmp_path / "config"), "IPYTHONDIR": str(tmp_path / "ipython")},
    )  # fmt: skip
    try:
        assert program.stdout.readline() == "Starting Voila on training.ipynb …\n"
        said = program.stdout.readline()
        yield program, re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", said).group()
    finally:
        program.kill()
        program.wait()


def test_an_app_is_its_users_alone_and_tries_a_plan_at_a_click(page, app):
    program, address = app
    server = address.partition("?")[0]
    with pytest.raises(HTTPError, match="403"):
        urllib.request.urlopen(f"{server}api/kernels/{uuid.uuid4()}", timeout=30)
    with urllib.request.urlopen(server, timeout=30) as stranger:
        assert "login" in stranger.url
    reached, complaints = [], []
    page.on("requestfinished", lambda request: reached.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address, wait_until="commit")  # it is loaded when all cells have run
    expect(page.get_by_test_id("step-time")).to_contain_text("ms a step", timeout=120_000)
    start_trial(page, "fused_optimizer")
    expect(page.get_by_test_id("ladder-row")).to_have_attribute("data-plan", "fused_optimizer")
    page.get_by_test_id("stop").click()
    expect(page.get_by_test_id("trial-state")).to_have_text("stopped", timeout=120_000)
    assert [url for url in reached if not url.startswith((server, "blob:", "data:"))] == []
    assert complaints == []
    children = psutil.Process(program.pid).children(recursive=True)
    for process in (program.pid, children[0].pid):  # as a terminal does
        os.kill(process, signal.SIGINT)
    assert program.wait(60) == 0
    assert program.stdout.read().splitlines()[-1].startswith("The app of training.ipynb has ended")
    assert psutil.wait_procs(children, timeout=60)[1] == []
