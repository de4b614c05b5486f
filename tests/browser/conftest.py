"""JupyterLab and Notebook 7 on loopback, driven in Chromium: fresh settings, a page and a kernel a test, ended with it."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import expect

expect.set_options(timeout=60_000)  # 5 s of Playwright are short next to other tests
SETTINGS = """
c = get_config()
c.ServerApp.ip = "127.0.0.1"
c.ServerApp.port_retries = 0
c.ServerApp.open_browser = False
c.ServerApp.allow_root = True
c.ServerApp.disable_check_xsrf = True
c.IdentityProvider.token = ""
c.LabApp.expose_app_in_browser = True
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
c.LabApp.extension_manager = "readonly"
c.JupyterNotebookApp.expose_app_in_browser = True
"""
EXTENSION = (
    Path(__file__).resolve().parents[2] / "widgets" / "labextension"
)  # as it is here, installed or not
# What Notebook 7.6.5 itself complains about as it opens, the first of it also without our extension.
OF_NOTEBOOK_7 = {
    "Cannot read properties of undefined (reading 'schema')",
    "Command 'filebrowser:open-path' not registered.",
}
TRIAL_MS = 300_000
VIEWPORT = {"width": 1280, "height": 1000}
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG

# Everything is asked of JupyterLab's own application object: a click on a menu before the kernel is ready runs nothing.
READY = """async () => {
  const notebook = window.jupyterapp.shell.currentWidget;
  await notebook.revealed; await notebook.sessionContext.ready; await notebook.sessionContext.session.kernel.info;
}"""
RUN_CELL = """async ([index, isAwaited]) => {
  window.jupyterapp.shell.currentWidget.content.activeCellIndex = index;
  const done = window.jupyterapp.commands.execute("notebook:run-cell");
  if (isAwaited) await done;
}"""
OUTPUTS = """() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells.map(
  (cell) => cell.cell_type === "code" ? cell.getOutputs() : null)"""
SET_THEME = "async (theme) => await window.jupyterapp.commands.execute('apputils:change-theme', { theme })"


@dataclass
class Server:
    """A running JupyterLab: where it is, the folder it shows, its process."""

    url: str
    folder: Path
    process: subprocess.Popen[bytes]

    def add_notebook(self, name: str, *cells: str, kernel: str = "python3") -> str:
        """Write a notebook into the folder; gives its name, for `open`."""
        spec = {"name": kernel, "display_name": kernel, "language": "python"}  # without one, Lab asks which
        written = new_notebook(cells=[new_code_cell(cell) for cell in cells], metadata={"kernelspec": spec})
        nbformat.write(written, self.folder / name)
        return name

    def workers(self) -> set[int]:
        """The process ids of all worker processes of its kernels."""
        found = set()
        for process in psutil.Process(self.process.pid).children(recursive=True):
            try:
                if "accel.workers.worker_main" in process.cmdline():
                    found.add(process.pid)
            except psutil.NoSuchProcess:
                continue
        return found


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with jupyterlab(tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("jupyter")) as running:
        yield running


@contextmanager
def jupyterlab(folder: Path, home: Path) -> Iterator[Server]:
    """One that shows this folder, with its settings in another."""
    port, log = _free_port(), (home / "server.log").open("wb")
    command = [sys.executable, "-m", "jupyterlab", f"--port={port}", f"--ServerApp.root_dir={folder}"]
    process = subprocess.Popen(command, env=_fresh_environment(home), stdout=log, stderr=log,
                               start_new_session=True, preexec_fn=_end_with_the_tests)  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_until_up(url, process, home / "server.log")
        yield Server(url, folder, process)
    finally:
        _end(process)
        log.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _fresh_environment(home: Path) -> dict[str, str]:
    """Settings of nobody: neither the user's JupyterLab nor its news pop-up has a part in the tests."""
    places = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "JUPYTERLAB_SETTINGS_DIR",
              "JUPYTERLAB_WORKSPACES_DIR")  # fmt: skip
    environment = {**os.environ, **{name: str(home / name.lower()) for name in places}}
    (home / "jupyter_config_dir").mkdir()
    for program in ("lab", "notebook"):  # Notebook 7 is an extension of the same server
        (home / "jupyter_config_dir" / f"jupyter_{program}_config.py").write_text(SETTINGS)
    (home / "labextensions").mkdir()
    (home / "labextensions" / "accel-workbench").symlink_to(EXTENSION)
    environment["JUPYTER_PATH"] = str(home)
    news = home / "jupyterlab_settings_dir" / "@jupyterlab" / "apputils-extension"
    news.mkdir(parents=True)
    (news / "notification.jupyterlab-settings").write_text(
        json.dumps({"fetchNews": "false", "checkForUpdates": False})
    )
    return environment


def _end_with_the_tests() -> None:
    """The server is in a session of its own, so that its kernels end with it; if the tests are killed, so is it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGTERM)


def _wait_until_up(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/api/status", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """The server shuts its kernels down on SIGTERM; whatever is left of its process group is killed."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(20)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(20)


@dataclass
class Notebook:
    """A notebook in JupyterLab or Notebook 7 in a page; what it asked the network for and complained about is noted.

    A complaint whose text, without its stack, is in `expected` is ignored: the application logs it by itself.
    """

    page: Any
    server: Server
    app: str = "lab"
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    expected: set[str] = field(default_factory=set)

    def open(self, name: str) -> Notebook:
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "console", lambda said: self.complaints.append(said.text) if said.type == "error" else None
        )
        place = f"lab/workspaces/t{uuid.uuid4().hex[:8]}/tree" if self.app == "lab" else self.app
        self.page.goto(f"{self.server.url}/{place}/{name}")
        self.wait_until_ready()
        return self

    def wait_until_ready(self) -> None:
        """The notebook is there with its kernel, after it was opened or the page reloaded."""
        self.page.wait_for_function(
            "() => window.jupyterapp?.shell?.currentWidget?.sessionContext", timeout=60_000
        )
        self.page.evaluate(READY)

    def hide_sidebar(self) -> None:
        self.page.evaluate(
            "async () => await window.jupyterapp.commands.execute('application:toggle-left-area')"
        )

    def run_all(self) -> None:
        self.page.evaluate("async () => await window.jupyterapp.commands.execute('notebook:run-all-cells')")

    def run_cell(self, index: int, *, wait: bool = True) -> None:
        self.page.evaluate(RUN_CELL, [index, wait])

    def cell(self, index: int) -> Any:
        """A cell of the page, where the page is tall enough to show it."""
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(index)

    def outputs(self, index: int) -> list[dict[str, Any]]:
        return self.page.evaluate(OUTPUTS)[index]

    def errors_in_cells(self) -> list[str]:
        outputs = [output for cell in self.page.evaluate(OUTPUTS) for output in cell or []]
        return [f"{one['ename']}: {one['evalue']}" for one in outputs if one["output_type"] == "error"]

    def expect_trial_to_be_done(self) -> None:
        """Wait for the newest trial; one that fails ends the wait at once, with what the panel says of it."""
        state = self.page.get_by_test_id("trial-state").first
        expect(state).to_have_text(re.compile("done|failed|stopped"), timeout=TRIAL_MS)
        assert state.inner_text() == "done", self.page.locator(".accel-workbench").inner_text()

    def set_theme(self, name: str) -> None:
        self.page.evaluate(SET_THEME, name)
        self.page.wait_for_selector(
            "#jupyterlab-splash", state="detached"
        )  # it covers the page while the theme loads

    def shut_down(self) -> None:
        """Asked of the server: in the page it may wait for a dialog that nobody answers."""
        sessions = f"{self.server.url}/api/sessions"
        with urllib.request.urlopen(sessions, timeout=30) as answer:
            known = json.load(answer)
        for session in known:
            ending = urllib.request.Request(f"{sessions}/{session['id']}", method="DELETE")
            urllib.request.urlopen(ending, timeout=30).close()


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_context_args, "viewport": VIEWPORT, "reduced_motion": "reduce"}


@pytest.fixture
def notebook(page: Any, server: Server, request: pytest.FixtureRequest) -> Iterator[Notebook]:
    """`notebook.open(name)`; its kernel is shut down afterwards, and nothing off this machine was asked for.

    In JupyterLab; in Notebook 7 with `@pytest.mark.parametrize("notebook", ["notebooks"], indirect=True)`.
    """
    with watched(page, server, getattr(request, "param", "lab")) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_notebook(browser: Any, browser_context_args: dict[str, Any], server: Server) -> Iterator[Notebook]:
    """The same for all tests of a file, which look at what it shows; none of them has a `notebook` of its own."""
    context = browser.new_context(**browser_context_args)
    with watched(context.new_page(), server, "lab") as opened:
        yield opened
    context.close()


@contextmanager
def watched(page: Any, server: Server, app: str) -> Iterator[Notebook]:
    page.set_default_timeout(90_000)
    opened = Notebook(page, server, app, expected=set() if app == "lab" else set(OF_NOTEBOOK_7))
    yield opened
    if opened.requests:
        opened.shut_down()
    strangers = [url for url in opened.requests if not url.startswith((server.url, "data:", "blob:"))]
    assert strangers == []
    assert [one for one in opened.complaints if one.split("\n    at ")[0] not in opened.expected] == []
