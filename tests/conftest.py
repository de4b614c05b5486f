"""What a machine may lack: a Chromium to drive, a compiler for TorchInductor. Tests that need it are skipped, with the reason."""

from __future__ import annotations

import os

# Beside another process, threads of OpenMP that spin take turns of milliseconds: steps would take a hundred times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import gc
import multiprocessing
import shutil
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from accel.machine.reading import c_compiler, python_header
from accel.processes import spawner
from tests.forked.process import Servers

settings.register_profile("no clock", deadline=None)  # a busy machine makes nothing wrong
settings.load_profile("no clock")

multiprocessing.set_forkserver_preload(["torchvision"])  # once, not in each worker process of a loader

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """Debian's Chromium, or whichever is on PATH; with ACCEL_REQUIRE_BROWSER=1, as in .ci/run, there must be one."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        missing = "no Chromium on PATH; `make test` installs it where apt may"
        if os.environ.get("ACCEL_REQUIRE_BROWSER") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    return {**browser_type_launch_args, "executable_path": found, "args": FLAGS}


@pytest.fixture(scope="session", autouse=True)
def interrupts_arrive() -> None:
    """A shell that starts the tests in the background has SIGINT ignored in them: Python would raise no KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def history_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test writes into the history of whoever runs the tests, in the kernels that it starts either."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCEL_HISTORY", str(tmp_path_factory.mktemp("history") / "history.sqlite"))
        yield


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Interpreters that have imported torch, from which children are forked."""
    made = Servers()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def children_are_forked(request: pytest.FixtureRequest, servers: Servers) -> Iterator[None]:
    """Workers and ranks are forks of such an interpreter, where the test is not marked `fresh_interpreters`."""
    with pytest.MonkeyPatch.context() as patch:
        if sys.platform == "linux" and request.node.get_closest_marker("fresh_interpreters") is None:
            patch.setattr(spawner, "MarkedProcess", servers.start)
        yield


@pytest.fixture(autouse=True)
def torch_as_it_was() -> Iterator[None]:
    """Cells and exported code that tests run have no undo: anomaly mode, methods that pinning puts round a copy, compiled code.

    Dynamo takes a number for a variable once it has seen a second value of it: it must not know those of other tests.
    """
    yield
    if (dynamo := sys.modules.get("torch._dynamo")) is not None:
        dynamo.reset()
    if (torch := sys.modules.get("torch")) is None:
        return
    torch.autograd.set_detect_anomaly(False)
    for name in {"to", "cuda"} & vars(torch.Tensor).keys():  # both are inherited
        delattr(torch.Tensor, name)


def pytest_collection_finish() -> None:
    """Modules and tests live to the end: who looks through all objects, as Python's own collector, need not meet them."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Python ends as it would have: what is frozen is never collected, and libraries report it as leaked."""
    gc.unfreeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is marked `compiles` where TorchInductor cannot build."""
    if item.get_closest_marker("compiles") is None:
        return
    missing = [
        name for name, found in (("a C++ compiler", c_compiler()), ("Python.h", python_header())) if not found
    ]
    if missing:
        pytest.skip(f"torch.compile needs {' and '.join(missing)} here: apt-get install g++ python3-dev")
