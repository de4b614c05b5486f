"""Entering autocast switches nothing on, wherever it is entered; what was on before, and what comes after undo, is untouched."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest
import torch
from small_training import training
from torch import nn
from torch.utils.checkpoint import checkpoint
from trainings_with_waste import under_autocast

from accel.accelerations import autocast_off
from accel.accelerations.autocast_off import AutocastOff
from accel.machine import read_machine
from accel.workbench import Workbench
from accel.workload import Replica

LAYER, NUMBERS = nn.Linear(4, 4), torch.ones(2, 4)
CELL = """
for x, y in loader:
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


def bf16():
    return torch.autocast("cpu", dtype=torch.bfloat16)


def in_a_with():
    with bf16():
        return LAYER(NUMBERS).dtype


@bf16()
def decorated():
    return LAYER(NUMBERS).dtype


def within_another():
    with torch.amp.autocast("cpu"), torch.no_grad(), bf16():
        return LAYER(NUMBERS).dtype


def in_another_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(in_a_with()))
    thread.start()
    thread.join()
    return found[0]


def after_a_checkpoint():
    """Checkpointing enters the autocast of forward again when it computes forward again."""
    found = []

    def block(x):
        found.append(LAYER(x).dtype)
        return LAYER(x)

    with bf16():
        output = checkpoint(block, NUMBERS, use_reentrant=False)
    output.sum().backward()
    return found[-1]


@pytest.mark.parametrize(
    "dtype",
    [in_a_with, decorated, within_another, in_another_thread, after_a_checkpoint],
    ids=lambda f: f.__name__,
)
def test_however_autocast_is_entered_it_casts_nothing_until_undo(dtype):
    assert dtype() == torch.bfloat16
    with AutocastOff().apply(Replica()):
        assert dtype() == torch.float32
        assert AutocastOff().took_effect(Replica()).took_effect
    assert dtype() == torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")


def test_an_autocast_that_was_entered_before_goes_on_as_it_began():
    with bf16():
        with AutocastOff().apply(Replica()):
            assert in_a_with() == torch.float32
            assert LAYER(NUMBERS).dtype == torch.bfloat16
        assert LAYER(NUMBERS).dtype == torch.bfloat16
    assert LAYER(NUMBERS).dtype == torch.float32


def test_one_that_is_left_after_undo_stays_off_and_leaves_nothing_behind():
    plan, entered = AutocastOff().apply(Replica()), bf16()
    plan.__enter__()
    entered.__enter__()
    plan.__exit__(None, None, None)
    assert LAYER(NUMBERS).dtype == torch.float32
    entered.__exit__(None, None, None)
    assert in_a_with() == torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")


def test_one_that_is_switched_off_by_itself_is_no_effect():
    with AutocastOff().apply(Replica()):
        with torch.autocast("cpu", enabled=False):
            assert LAYER(NUMBERS).dtype == torch.float32
        proof = AutocastOff().took_effect(Replica())
    assert not proof.took_effect
    assert "the training has not entered autocast" in proof.evidence


def test_an_interrupt_while_it_is_put_in_place_leaves_nothing_behind(monkeypatch):
    class Interrupting(list):
        def append(self, switch):
            raise KeyboardInterrupt

    enter = torch.autocast.__enter__
    monkeypatch.setattr(autocast_off, "_in_force", Interrupting())
    with pytest.raises(KeyboardInterrupt), AutocastOff().apply(Replica()):
        pass
    assert torch.autocast.__enter__ is enter
    assert in_a_with() == torch.bfloat16


def test_a_cell_without_autocast_needs_nothing():
    (reason,) = AutocastOff().why_not(training().workload(), read_machine())
    assert "Autograd recorded no operation under autocast" in str(reason)
    assert AutocastOff().why_not(under_autocast().workload(), read_machine()) == []


@pytest.mark.parametrize(
    "cell", [CELL, CELL.replace("model(x)", "model(x).float()")], ids=["as it was", "edited"]
)
def test_kept_it_holds_in_the_next_profile_which_still_sees_that_the_cell_needs_it(cell):
    seen = []
    made = training()
    made.model.register_forward_hook(lambda module, given, output: seen.append(output.dtype))
    with closing(Workbench(made.namespace | {"torch": torch}, spare_workers=0)) as workbench:
        workbench.profile(CELL)
        workbench.keep("autocast_off")
        seen.clear()
        workbench.profile(cell)
        assert set(seen) == {torch.float32}
        assert workbench.workload.conditions.autocast == (("cpu", "bfloat16"),)
        assert str(workbench.kept) == "autocast_off"
        workbench.undo()
        assert in_a_with() == torch.bfloat16
