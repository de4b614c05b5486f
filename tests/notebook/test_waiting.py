"""`%accel try` with real workers: it waits and shows the ladder, or returns at once, and can be interrupted."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator

import psutil
import pytest

from accel.current import current_workbench
from accel.measuring.ladder import Ladder
from accel.workers.trial import Trial

TRY = "%accel try fused_optimizer --budget-s 3"


@pytest.fixture
def profiled(shell) -> Iterator[object]:
    """A shell with a workload; as in a kernel, displays are redrawn in place."""
    shell.earlier = set(children())  # such as workers of a loader that an earlier test still holds
    assert shell.run("%%accel profile\ntrain();").success
    shell.kernel = "displays are redrawn in place"
    yield shell
    del shell.kernel


def children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if child.status() != "zombie"]


@pytest.mark.fresh_interpreters  # which take long enough to be shown
def test_it_waits_shows_the_ladder_filling_and_returns_it(profiled) -> None:
    result = profiled.run(f"{TRY} -o ladder")
    assert isinstance(result.result, Ladder)
    assert profiled.user_ns["ladder"] is result.result
    begins = next(at for at, shown in enumerate(profiled.shown) if shown.startswith("Trial · "))
    line = r"Trial · [\w ,]+ \d:\d\d · .*of at most 0:03. Interrupt stops it."
    assert re.match(line, profiled.shown[begins])
    assert any("starting workers" in shown for shown in profiled.shown)
    assert re.match(r"Trial done after \d+ s.", profiled.shown[-1])
    first, *later = profiled.display_pub.outputs[begins:]
    assert all(output["update"] for output in later)
    assert len({output["transient"]["display_id"] for output in [first, *later]}) == 1


def test_in_the_background_it_returns_the_trial_at_once(profiled) -> None:
    trial = profiled.run(f"{TRY} --background").result
    assert isinstance(trial, Trial)
    assert profiled.run("1 + 1").result == 2
    trial.stop()
    assert trial.state == "stopped"


def interrupt_once_it_runs() -> None:
    """Send this process an interrupt, as the front end's button does, two seconds after the next trial began."""
    workbench, sent = current_workbench(), threading.Event()

    def interrupt(what: str) -> None:
        if what == "trial" and workbench.running_trial is not None and not sent.is_set():
            sent.set()
            threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT)).start()

    workbench.subscribe(interrupt)


def interrupt_as_it_begins() -> None:
    """An interrupt in the main thread between the start of the next trial and the first look at it."""
    workbench, sent = current_workbench(), threading.Event()

    def interrupt(what: str) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        if what == "trial" and is_main and not sent.is_set():
            sent.set()
            signal.raise_signal(signal.SIGINT)

    workbench.subscribe(interrupt)


@pytest.mark.fresh_interpreters
def test_interrupt_stops_the_trial_and_leaves_no_worker(profiled) -> None:
    interrupt_once_it_runs()
    result = profiled.run("%accel try fused_optimizer")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert profiled.tracebacks == [f"KeyboardInterrupt: {result.error_in_exec}"]
    assert current_workbench().trials[-1].state == "stopped"
    own = [child for child in children() if child not in profiled.earlier]
    assert psutil.wait_procs(own, timeout=10)[1] == []
    assert profiled.run("train()").success


@pytest.mark.parametrize(
    "command",
    [
        "try fused_optimizer",
        "try fused_optimizer --background",
        "try fused_optimizer --train-s 9 --metric accuracy",
    ],
)
def test_an_interrupt_before_anything_is_shown_stops_the_trial_too(profiled, command) -> None:
    profiled.run("def accuracy(model):\n    return 0.5")
    interrupt_as_it_begins()
    result = profiled.run(f"%accel {command}")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert profiled.shown[-1:] in ([], [""])  # what beats after a second, on a busy machine, is gone again
    assert current_workbench().trials[-1].state == "stopped"
    assert current_workbench().running_trial is None


def test_a_terminal_gets_one_line_and_no_redrawing(profiled, capsys) -> None:
    del profiled.kernel
    interrupt_once_it_runs()
    profiled.run("%accel try fused_optimizer")
    profiled.kernel = "as the fixture left it"
    assert profiled.shown == []
    assert capsys.readouterr().out.count("Interrupt stops it.") == 1


def test_an_unknown_acceleration_gets_the_nearest_and_starts_no_trial(profiled) -> None:
    result = profiled.run("%accel try chanels_last")
    assert "Did you mean 'channels_last'?" in str(result.error_in_exec)
    assert profiled.shown == []


LOADER = """
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 8), torch.zeros(64).long()), 8)
"""


def test_a_search_for_the_fastest_batch_shows_the_sizes_it_measures(profiled) -> None:
    assert profiled.run(LOADER).success
    assert profiled.run("%%accel profile\nfor x, y in loader:\n    step(x, y)").success
    result = profiled.run("%accel batch --largest 16 --budget-s 10").result
    assert {rung.batch for rung in result.rungs} >= {4, 8, 16}
    assert any(
        shown.startswith("Measuring batches of 16 and 4 samples against 8. Trial · ")
        for shown in profiled.shown
    )
    assert "batch_size" in profiled.shown[-2]  # its ladder, filling
    assert re.match(r"Measuring batches of .* against 8. Trial done after \d+ s.", profiled.shown[-1])


def test_interrupt_stops_the_search_too(profiled, capsys) -> None:
    assert profiled.run(LOADER).success
    assert profiled.run("%%accel profile\nfor x, y in loader:\n    step(x, y)").success
    del profiled.kernel
    interrupt_once_it_runs()
    result = profiled.run("%accel batch")
    profiled.kernel = "as the fixture left it"
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert len(current_workbench().trials) == 1
    assert capsys.readouterr().out.count("Measuring batches of 16 and 4 samples against 8.") == 1
