"""Pruning as it is written into a cell: the same filters, the same random numbers, the same optimizer state as live."""

from __future__ import annotations

import pytest
import torch
from small_training import training, training_of_blocks, workload_of
from torch import nn

from accel.accelerations.autocast import Autocast
from accel.accelerations.prune import Prune
from accel.plans.plan import Plan
from accel.workload.call_inputs import CallInputs


def both(make, plan, epochs=3):
    """The losses of a training under the live plan, and those of its plain code."""
    live, plain = make(), make()
    with plan.apply(live.replica()):
        expected = live.epochs(epochs)
    for entry in plan.entries:
        exec(entry.as_code(plain.workload()), plain.namespace)
    return expected, plain.epochs(epochs), plain


class Noise(nn.Module):
    def forward(self, x):
        return x + 0.1 * torch.randn_like(x)


def with_noise():
    made = training()
    made.model[2] = Noise()
    return made


@pytest.mark.parametrize("make", [with_noise, training_of_blocks], ids=["noise", "dropout"])
def test_choosing_draws_no_random_numbers(make):
    expected, losses, _ = both(make, Plan((Prune(warm_up_steps=1),)))
    assert losses == expected


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_choosing_in_the_middle_of_a_training_in_16_bits_takes_the_same_filters(dtype):
    plan = Plan((Autocast(dtype=dtype), Prune(criterion="taylor", warm_up_steps=2)))
    expected, losses, plain = both(lambda: training(torch.optim.SGD), plan)
    assert losses == expected
    assert plain.model[0].out_channels == 2


def test_nothing_is_called_or_collected_once_all_is_taken_out():
    made = training()
    exec(Prune(criterion="taylor", warm_up_steps=2).as_code(made.workload()), made.namespace)
    made.epochs()
    assert made.model[0].out_channels == 2
    assert not made.model._forward_pre_hooks
    assert not any(parameter._post_accumulate_grad_hooks for parameter in made.model.parameters())


def test_choosing_calls_none_of_the_users_hooks():
    made, calls = training(), []
    made.model[0].register_forward_hook(lambda *_: calls.append(1))
    exec(Prune().as_code(made.workload()), made.namespace)
    assert calls == []
    made.epochs()
    assert len(calls) == 3


def test_state_that_adds_up_rows_and_columns_is_cut_too():
    expected, losses, plain = both(
        lambda: training(torch.optim.Adafactor, steps_before=2), Plan((Prune(warm_up_steps=2),))
    )
    assert losses == expected
    assert plain.model[0].weight.shape[0] == 2


def test_an_optimizer_that_the_cell_builds_is_cut_when_its_time_comes():
    made = training()
    alone = workload_of(made.replica(), {"model": made.model}, "", made.workload().roles[0].inputs)
    exec(Prune(warm_up_steps=2).as_code(alone), {"model": made.model})
    made.epochs(2)
    assert made.model[0].out_channels == 2


class Batch:
    def __init__(self, images):
        self.images = images


class OfBatches(nn.Sequential):
    def forward(self, batch):
        return super().forward(batch.images)


@pytest.mark.parametrize("inputs", [None, CallInputs.of_call(Batch(None))], ids=["not seen", "strange"])
def test_inputs_that_are_not_known_are_waited_for(inputs):
    made = training()
    call = torch.randn(4, 3, 8, 8)
    if inputs is not None:
        made.model, call = OfBatches(*made.model), Batch(call)
    code = Prune().as_code(workload_of(made.replica(), made.namespace, "", inputs))
    assert "Strange" not in code
    assert "torch.zeros(1" not in code
    exec(code, made.namespace)
    assert made.model[0].out_channels == 4
    with torch.inference_mode():
        made.model(call)
    assert made.model[0].out_channels == 2
    made.model(call).sum().backward()
    assert made.model[0].weight.grad.shape[0] == 2
