"""Gradients that are dropped although the cell asks for zeros."""

from __future__ import annotations

import pytest
import torch
from small_training import training
from torch import nn
from trainings_with_waste import clearing_to_zeros

from accel.accelerations.gradient_accumulation import GradientAccumulation
from accel.accelerations.set_to_none import SetToNone
from accel.machine import read_machine
from accel.plans.plan import Plan
from accel.workbench import Workbench
from accel.workload import Replica


@pytest.fixture
def bench():
    made = training()
    bench = Workbench({"__name__": "__main__", **made.namespace}, spare_workers=0)
    yield bench
    bench.close()


def cell(clear):
    return f"""
for images, targets in loader:
    {clear}
    criterion(model(images), targets).backward()
    optimizer.step()
"""


@pytest.mark.parametrize("clear", ["optimizer.zero_grad(set_to_none=False)", "optimizer.zero_grad(False)"])
def test_a_profile_sees_that_gradients_are_cleared_to_zeros(bench, clear):
    bench.profile(cell(clear))
    assert bench.workload.clears_to_zeros
    assert SetToNone().why_not(bench.workload, read_machine()) == []
    bench.keep("set_to_none")
    exec(cell(clear), bench.namespace)
    assert bench.status().proofs[0][1]
    bench.profile(cell(clear))
    assert str(bench.kept) == "set_to_none", "what is kept hides its own reason"


def test_a_model_that_clears_to_zeros_itself_is_not_reached_and_the_reason_says_what_to_write(bench):
    clear = "model.zero_grad(set_to_none=False)"
    bench.profile(cell(clear))
    (reason,) = SetToNone().why_not(bench.workload, read_machine())
    assert reason.do.endswith(f"unless it calls {clear}: write optimizer.zero_grad() there.")


@pytest.mark.parametrize("clear", ["optimizer.zero_grad()", "model.zero_grad()", "optimizer.zero_grad(True)"])
def test_a_cell_that_drops_gradients_is_told_that_there_is_nothing_to_do(bench, clear):
    bench.profile(cell(clear))
    (reason,) = SetToNone().why_not(bench.workload, read_machine())
    assert "Nothing needs to be done" in str(reason)


def test_losses_are_bit_equal_where_every_parameter_gets_a_gradient():
    usual, made = clearing_to_zeros(), clearing_to_zeros()
    with SetToNone().apply(made.replica()):
        assert made.epochs(3) == usual.epochs(3)


def test_a_parameter_without_a_gradient_is_passed_over_as_the_card_says():
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1, weight_decay=1.0)
    (weight * 0).sum().backward()

    def clear_and_step():
        optimizer.zero_grad(set_to_none=False)
        optimizer.step()
        return weight.item()

    assert clear_and_step() == pytest.approx(0.9)
    with SetToNone().apply(Replica(optimizers={"optimizer": optimizer})):
        assert clear_and_step() == pytest.approx(0.9)


def test_it_goes_with_accumulated_gradients():
    usual, made = clearing_to_zeros(), clearing_to_zeros()
    with GradientAccumulation().apply(usual.replica()):
        expected = usual.epochs(2)
    with Plan((SetToNone(), GradientAccumulation())).apply(made.replica()):
        assert made.epochs(2) == expected


def test_a_zero_grad_of_the_users_own_is_called_and_put_back():
    made, seen = clearing_to_zeros(), []

    def own(set_to_none=True):
        seen.append(set_to_none)
        torch.optim.Optimizer.zero_grad(made.optimizer, set_to_none)

    made.optimizer.zero_grad = own
    with SetToNone().apply(made.replica()):
        made.epochs()
    assert seen == [True] * 3
    assert made.optimizer.zero_grad is own
