"""Whether 16-bit numbers were really there is read from the calls, wherever the model hides them."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from small_training import Training, training
from torch import nn

from accel.accelerations.autocast import Autocast
from accel.machine import read_machine
from accel.plans.plan import Plan


class Float32Head(nn.Module):
    """What it gives is float32 under autocast too."""

    def forward(self, x):
        return torch.log_softmax(x.float(), dim=1)


class InDouble(nn.Module):
    """Behind it autocast casts nothing."""

    def forward(self, x):
        return x.double()


def with_float32_output(optimizer=torch.optim.Adam):
    made = training(optimizer)
    made.model.append(Float32Head())
    return Training(**made.namespace, built_by=with_float32_output)


def proof_of(plan, made, epochs=1):
    with plan.apply(made.replica()):
        made.epochs(epochs)
        return dict(plan.proofs(made.replica()))["autocast"]


@pytest.mark.parametrize("calls_before", [0, 5])
def test_validation_before_training_does_not_use_up_the_looks(calls_before):
    made, plan = with_float32_output(), Plan((Autocast(),))
    with plan.apply(made.replica()), torch.no_grad():
        for _ in range(calls_before):
            made.model(torch.ones(4, 3, 8, 8))
        with torch.enable_grad():
            made.epochs(1)
        assert Autocast().took_effect(made.replica()).took_effect


@pytest.mark.compiles
@pytest.mark.parametrize("in_double", [False, True])
def test_a_compiled_model_with_a_float32_output_shows_what_it_computes_in(in_double):
    made = with_float32_output()
    if in_double:
        made.model.double().insert(0, InDouble())
    proof = proof_of(Plan.parse('compile_model(backend="aot_eager")+autocast'), made)
    assert proof.took_effect is not in_double, proof.evidence


@pytest.mark.compiles
def test_compiled_code_is_seen_when_validation_ran_it_first():
    made, plan = with_float32_output(), Plan.parse('compile_model(backend="aot_eager")')
    for _ in range(2):  # the second time it is the same compiled code, and no graph is made any more
        with plan.apply(made.replica()):
            with torch.no_grad():
                for _ in range(5):
                    made.model(torch.ones(4, 3, 8, 8))
            made.epochs(1)
            ((_, proof),) = plan.proofs(made.replica())
    assert proof.took_effect, proof.evidence


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_what_a_refusal_tells_to_leave_off_is_a_plan_that_can_be_typed(dtype):
    machine = dataclasses.replace(read_machine(), isa=())
    (reason,) = Autocast(dtype).why_not(training().workload(), machine)
    named = reason.do.partition("Leave ")[2].partition(" off here")[0]
    assert Plan.parse(named) == Plan((Autocast(dtype),))
