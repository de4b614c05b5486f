"""`%accel try … --until` in a notebook: it waits with its table filling, returns the result, and can be interrupted."""

from __future__ import annotations

import os
import signal
import threading

from accel.current import current_workbench
from accel.measuring.time_to_quality import TimeToQuality

METRIC = """
def accuracy(model):
    return sum((model(x).argmax(1) == y).sum() for x, y in batches) / 40
"""


def profiled(shell):
    shell.run(METRIC)
    assert shell.run("%%accel profile\ntrain();").success
    shell.kernel = "displays are redrawn in place"
    return shell


def test_it_waits_shows_the_table_filling_and_returns_it(shell) -> None:
    profiled(shell)
    result = shell.run('%accel try fused_optimizer --until "accuracy>=0.9" --seeds 1 --budget-s 60 -o found')
    del shell.kernel
    assert isinstance(result.result, TimeToQuality)
    assert shell.user_ns["found"] is result.result
    assert [row.plan for row in result.result.rows] == ["baseline", "fused_optimizer"]
    assert any("Interrupt stops it." in shown for shown in shell.shown)
    assert any("Seconds of training until accuracy>=0.9" in shown for shown in shell.shown)
    assert "Trial done after" in shell.shown[-1]


def test_interrupt_stops_it(shell) -> None:
    profiled(shell)
    workbench, is_sent = current_workbench(), threading.Event()

    def interrupt_as_it_trains(what: str) -> None:
        trial = workbench.running_trial
        trains = trial is not None and trial.phases.now.startswith("training")
        if trains and shell.shown and not is_sent.is_set():
            is_sent.set()
            os.kill(os.getpid(), signal.SIGINT)

    workbench.subscribe(interrupt_as_it_trains)
    result = shell.run('%accel try fused_optimizer --until "accuracy>=1.1"')
    del shell.kernel
    assert is_sent.is_set()
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert "what was measured until then stands above" in str(result.error_in_exec)
    assert "Trial stopped after" in shell.shown[-1]
    assert workbench.trials[-1].state == "stopped"
    assert workbench.running_trial is None


def test_a_notebook_without_held_out_data_is_told_what_to_do(shell) -> None:
    assert shell.run("%%accel profile\ntrain();").success
    result = shell.run('%accel try fused_optimizer --until "accuracy>=0.9"')
    assert "no DataLoader of the notebook holds data that the training does not see" in str(
        result.error_in_exec
    )
    assert "--metric" in str(result.error_in_exec)
