"""Anomaly mode stays off however it is switched on, and what was asked for holds again after undo."""

from __future__ import annotations

from contextlib import closing

import pytest
import torch
from small_training import training

from accel.accelerations import detect_anomaly_off
from accel.accelerations.detect_anomaly_off import DetectAnomalyOff
from accel.machine import read_machine
from accel.plans.live_plan import LivePlan
from accel.plans.plan import Plan
from accel.workbench import Workbench
from accel.workload import Replica
from accel.workload.run_conditions import read_conditions


def keeps_tracebacks():
    return "traceback_" in torch.ones((), requires_grad=True).neg().grad_fn.metadata


@pytest.mark.parametrize(
    "switch_on",
    [lambda: torch.autograd.set_detect_anomaly(True), lambda: torch.set_anomaly_enabled(True)],
    ids=["set_detect_anomaly", "set_anomaly_enabled"],
)
def test_what_is_switched_on_meanwhile_holds_after_undo(switch_on):
    with DetectAnomalyOff().apply(Replica()):
        switch_on()
        assert not keeps_tracebacks()
    assert keeps_tracebacks()


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("was_on", [True, False])
def test_a_with_in_the_cell_leaves_the_mode_of_an_earlier_cell_as_it_was(was_on):
    torch.autograd.set_detect_anomaly(was_on)
    with DetectAnomalyOff().apply(Replica()):
        with torch.autograd.detect_anomaly(), torch.autograd.set_detect_anomaly(False):
            assert not keeps_tracebacks()
        assert not torch.is_anomaly_enabled()
        assert read_conditions().anomaly_mode == was_on, "a profile sees what holds without the plan"
    assert torch.is_anomaly_enabled() == was_on


def test_whether_to_look_for_nan_stays_as_it_was_set():
    torch.set_anomaly_enabled(True, False)
    with DetectAnomalyOff().apply(Replica()):
        assert not torch.is_anomaly_check_nan_enabled()
    assert (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()) == (True, False)


def test_an_interrupt_while_it_is_put_in_place_leaves_nothing_behind(monkeypatch):
    class Interrupting(list):
        def append(self, switch):
            raise KeyboardInterrupt

    torch.set_anomaly_enabled(True)
    ours = torch.set_anomaly_enabled, torch.is_anomaly_enabled
    monkeypatch.setattr(detect_anomaly_off, "_in_force", Interrupting())
    with pytest.raises(KeyboardInterrupt), DetectAnomalyOff().apply(Replica()):
        pass
    assert (torch.set_anomaly_enabled, torch.is_anomaly_enabled) == ours
    assert torch.is_anomaly_enabled()


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_kept_it_stays_kept_when_the_cell_is_edited_and_profiled_again():
    made = training()
    cell = (
        "with torch.autograd.detect_anomaly():\n    for x, y in loader:\n        optimizer.zero_grad()\n"
        "        criterion(model(x), y).backward()\n        optimizer.step()\n"
    )
    with closing(Workbench(made.namespace | {"torch": torch})) as workbench:
        workbench.profile(cell)
        workbench.keep("detect_anomaly_off")
        workbench.profile(cell + "done = True\n")
        assert str(workbench.kept) == "detect_anomaly_off"


def test_a_nan_that_anomaly_mode_would_stop_passes():
    number = torch.zeros((), requires_grad=True)
    with DetectAnomalyOff().apply(Replica()), torch.autograd.set_detect_anomaly(True):
        (torch.sqrt(number) * 0).backward()
    assert number.grad.isnan()


def test_kept_in_the_notebook_it_holds_and_says_so():
    made = training()
    live = LivePlan(made.workload())
    live.keep(Plan.parse("detect_anomaly_off"))
    torch.autograd.set_detect_anomaly(True)
    made.epochs()
    assert not torch.is_anomaly_enabled()
    assert DetectAnomalyOff().took_effect(live.presented()[0]).took_effect
    assert DetectAnomalyOff().why_not(made.workload(), read_machine()) == []
    live.undo()
    assert torch.is_anomaly_enabled()


def test_a_cell_without_anomaly_mode_needs_nothing():
    (reason,) = DetectAnomalyOff().why_not(training().workload(), read_machine())
    assert "was not on" in str(reason)


def test_anomaly_mode_of_an_earlier_cell_is_enough():
    torch.autograd.set_detect_anomaly(True)
    assert DetectAnomalyOff().why_not(training().workload(), read_machine()) == []
