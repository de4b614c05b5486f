"""The catalogue's contract on a CUDA device, where some entries can be proven only. Skipped where there is none.

What is compared bit for bit on a CPU is compared closely here: kernels of one GPU add up in an order of their own.
"""

from __future__ import annotations

import pytest
import torch
from cases import CASES
from process_as_it_was import one_thread_and_the_usual_allocator, the_process_as_it_was  # noqa: F401
from small_training import Training, bits, wiring
from test_contract import SINGLE, of_plans, training_for

from accel.errors import in_words, of_each
from accel.machine import read_machine
from accel.plans.plan import Plan

DEVICE = "cuda"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]

each_single = of_plans(SINGLE)


@pytest.fixture(autouse=True)
def the_same_kernels_each_time(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)


def training_on_device(plan: Plan) -> Training:
    """After an epoch; the test is skipped where the plan says that it cannot work here, with what it says."""
    made = training_for(plan).on(DEVICE)
    made.epochs()
    if reasons := plan.why_not(made.workload(), read_machine()):
        pytest.skip(f"not on this machine: {in_words(of_each(reasons))}")
    return made


@each_single
def test_takes_effect_and_says_so(plan):
    made = training_on_device(plan)
    with plan.apply(made.replica()):
        made.epochs(2)
        ((_, proof),) = plan.proofs(made.replica())
    assert proof.took_effect, proof.evidence


@each_single
def test_a_plan_that_did_not_take_effect_is_found_out(plan):
    made = training_on_device(plan)
    with plan.apply(made.replica()):
        CASES[plan.names[0]].sabotage(made)
        made.epochs()
        ((_, proof),) = plan.proofs(made.replica())
    torch.compiler.set_stance("default")
    assert not proof.took_effect, proof.evidence


@each_single
def test_losses_stay_close(plan):
    made = training_on_device(plan)
    if plan.effect == "changes training":
        pytest.skip("it changes training")
    usual = made.twin().epochs(2)
    with plan.apply(made.replica()):
        assert made.epochs(2) == pytest.approx(usual, rel=1e-4 if plan.effect == "exact" else 0.05)


@each_single
def test_the_plain_code_gives_the_losses_of_the_live_plan(plan):
    live, plain = training_on_device(plan), training_on_device(plan)
    with plan.apply(live.replica()):
        expected = live.epochs(2)
    for entry in plan.entries:
        exec(entry.as_code(plain.workload()), plain.namespace)
    assert plain.epochs(2) == pytest.approx(expected, rel=1e-3)


@each_single
def test_undo_restores_every_bit_when_nothing_ran_and_the_wiring_after_training(plan):
    made = training_on_device(plan)
    before = bits(made), wiring(made)
    with plan.apply(made.replica()):
        pass
    assert (bits(made), wiring(made)) == before
    with plan.apply(made.replica()):
        made.epochs()
    assert wiring(made) == before[1]
