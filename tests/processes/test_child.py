"""What every child of ours keeps to, whatever it is for: it ends with its kernel, whole, and its last words are heard."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from accel.distributed.ranks.rank_process import RankProcess
from accel.machine.peaks.measuring_child import measuring_child
from accel.processes.channel import Closed
from accel.processes.child import Child, how_it_ended
from accel.processes.failure import Failed, failure_of
from accel.workers.worker import Worker

PATIENT_S = 60.0
Start = Callable[[str], Child]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a child that has said what it started; all are closed in the end."""
    children = []

    def started(what: str) -> Child:
        children.append(measuring_child("tests.processes.a_child", what))
        return children[-1]

    yield started
    for child in children:
        child.close()
        child.close()  # may be called twice
        assert not os.path.exists(child.folder.path)


def first_words(child: Child) -> list[psutil.Process]:
    """The processes that it started."""
    message, _, _ = child.channel.receive(PATIENT_S)
    return [psutil.Process(pid) for pid in message.values["started"]]


def test_workers_ranks_and_what_measures_are_of_this_one_kind() -> None:
    assert issubclass(Worker, Child)
    assert issubclass(RankProcess, Child)


def test_its_end_is_that_of_all_that_it_started(start: Start) -> None:
    child = start("children")
    own = first_words(child)
    assert len(own) == 2
    child.close()
    _, alive = psutil.wait_procs(own, timeout=PATIENT_S)
    assert not alive
    assert not child.is_alive


def test_where_it_stands_is_told_by_its_own_lines(start: Start) -> None:
    child = start("wait")
    first_words(child)
    until = time.monotonic() + PATIENT_S
    while "in wait_for_ever" not in child.where_it_stands(child.ask_where_it_stands()).splitlines()[0]:
        assert child.is_alive  # its words are here, and its call is not over
        assert time.monotonic() < until
    os.kill(child.pid, signal.SIGSTOP)
    assert "its process is stopped" in child.where_it_stands(child.ask_where_it_stands())


@pytest.mark.parametrize(
    ("what", "how", "said"),
    [
        ("crash", "killed by SIGSEGV", "a_child.py"),
        ("raise", "exited with status 1", "ZeroDivisionError: in the child"),
    ],
)
def test_a_crash_gives_its_traceback_and_how_it_ended(start: Start, what: str, how: str, said: str) -> None:
    child = start(what)
    assert how in how_it_ended(status_of_closed(child))
    assert said in child.output.text


def test_a_killed_child_may_have_run_out_of_memory(start: Start) -> None:
    child = start("wait")
    first_words(child)
    os.kill(child.pid, signal.SIGKILL)
    assert "killed by SIGKILL (the system may have run out of memory)" in how_it_ended(child.exit_status())


def test_how_a_child_ended_blames_a_cell_only_where_it_had_one_and_knows_signals_without_a_name() -> None:
    assert (
        how_it_ended(1, ran_cell=False)
        == "its process ended with status 1 while it started, before your cell ran"
    )
    assert how_it_ended(-40) == "it was killed by signal 40"


@pytest.mark.parametrize("what", ["close", "compute"])
def test_one_that_lives_on_without_its_connection_is_soon_given_up(
    start: Start, what: str, monkeypatch
) -> None:
    monkeypatch.setattr("accel.processes.child._EXIT_S", PATIENT_S)
    assert status_of_closed(start(what)) is None


def test_an_end_may_take_long_on_a_busy_machine(start: Start, monkeypatch) -> None:
    """A process that is stopped has no CPU, as one that waits for its turn."""
    monkeypatch.setattr("accel.processes.child._AT_WORK_S", 0.5)
    child = start("stop")

    def let_go_on() -> None:
        while psutil.Process(child.pid).status() != psutil.STATUS_STOPPED:
            time.sleep(0.01)
        time.sleep(1.0)
        os.kill(child.pid, signal.SIGCONT)

    letting = threading.Thread(target=let_go_on)
    letting.start()
    assert status_of_closed(child) == 3
    letting.join()


def status_of_closed(child: Child) -> int | None:
    first_words(child)
    with pytest.raises(Closed):
        child.channel.receive(PATIENT_S)
    return child.exit_status()


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 1 TB")]
)
def test_out_of_memory_is_told_with_who_holds_what(error: Exception) -> None:
    advice = failure_of(error, "<cell>").memory_advice("each rank", "fewer ranks")
    assert advice.endswith("each rank holds a copy of the model; use fewer ranks or a smaller batch.")


def test_other_errors_get_no_advice_on_memory() -> None:
    assert Failed("ValueError", "no such shape", "").memory_advice("each rank", "fewer ranks") == ""


KERNEL = """
import time
from accel.machine.peaks.measuring_child import measuring_child
child = measuring_child("tests.processes.a_child", "children")
print(child.pid, *child.channel.receive(60.0)[0].values["started"], flush=True)
time.sleep(1000)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a child ends when it next looks at its socket")
def test_it_does_not_outlive_a_kernel_that_was_killed() -> None:
    paths = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [sys.executable, "-c", KERNEL],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": paths},
    ) as kernel:
        assert kernel.stdout is not None
        child, *own = [psutil.Process(int(pid)) for pid in kernel.stdout.readline().split()]
        try:
            kernel.kill()
            _, alive = psutil.wait_procs([child], timeout=PATIENT_S)
            assert not alive
        finally:
            for each in own:  # a plain program may outlive both: only what Python forks ends with the child
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
