"""Ways in which compiling an optimizer's step could quietly go wrong; "aot_eager" makes graphs without building code."""

from __future__ import annotations

import contextlib
import copy
import pickle
import warnings

import pytest
import torch
from small_training import bits, training, wiring
from torch._dynamo.utils import counters
from torch.optim.lr_scheduler import StepLR
from torch.optim.optimizer import register_optimizer_step_post_hook

from accel.accelerations.compile_model import CompileModel
from accel.accelerations.compile_optimizer import CompileOptimizer
from accel.accelerations.gradient_accumulation import GradientAccumulation
from accel.errors import AccelError
from accel.machine import read_machine
from accel.plans.plan import Plan
from accel.techniques.compiling.compiled_step import found_step
from accel.workload import Replica

ENTRY = CompileOptimizer(backend="aot_eager")


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch.compiler.set_stance("default")
    torch._dynamo.reset()


def graphs():
    return counters["stats"]["unique_graphs"]


@pytest.mark.compiles
def test_inductors_step_follows_the_plain_one_and_undo_gives_it_back():
    usual, made = training(steps_before=1), training(steps_before=1)
    before = wiring(made)
    with CompileOptimizer().apply(made.replica()):
        assert made.epochs(2) == pytest.approx(usual.epochs(2), rel=1e-3)
        proof = CompileOptimizer().took_effect(made.replica())
    assert proof.took_effect, proof.evidence
    assert wiring(made) == before
    twin = made.twin()
    assert made.epochs() == twin.epochs()


@pytest.mark.parametrize(
    "kind",
    [torch.optim.SGD, torch.optim.RMSprop, torch.optim.NAdam],
    ids=lambda kind: kind.__name__,
)
def test_each_optimizer_of_torch_follows_and_is_like_never_touched_afterwards(kind):
    usual, made = training(kind, steps_before=1), training(kind, steps_before=1)
    before = wiring(made)
    with ENTRY.apply(made.replica()):
        assert made.epochs() == pytest.approx(usual.epochs(), rel=1e-3)
        proof = ENTRY.took_effect(made.replica())
    assert proof.took_effect, proof.evidence
    assert wiring(made) == before
    twin = made.twin()
    assert made.epochs() == twin.epochs()


def test_a_scheduler_compiles_nothing_anew_and_sees_plain_numbers():
    made = training()
    scheduler = StepLR(made.optimizer, 1, gamma=0.5)
    rates, after_first = [], 0
    with warnings.catch_warnings(), ENTRY.apply(made.replica()):
        warnings.simplefilter("error")
        for _ in range(3):
            made.epochs()
            scheduler.step()
            rates += [made.optimizer.param_groups[0]["lr"]]
            after_first = after_first or graphs()
    assert rates == [0.005, 0.0025, 0.00125]
    assert all(type(rate) is float for rate in rates)
    assert graphs() == after_first
    made.epochs()
    scheduler.step()
    assert made.optimizer.param_groups[0]["lr"] == 0.000625


def test_every_rate_of_a_scheduler_is_the_one_that_is_stepped_with():
    usual, made = training(), training()
    for each in (usual, made):
        each.optimizer.param_groups[0]["lr"] = 0.01
    expected = []
    for rate in (0.01, 0.5, 0.001):
        usual.optimizer.param_groups[0]["lr"] = rate
        expected += usual.epochs()
    losses = []
    with ENTRY.apply(made.replica()):
        for rate in (0.01, 0.5, 0.001):
            made.optimizer.param_groups[0]["lr"] = rate
            losses += made.epochs()
    assert losses == pytest.approx(expected, rel=1e-2)


def test_a_scheduler_made_meanwhile_works_on_after_undo():
    made = training()
    with ENTRY.apply(made.replica()):
        scheduler = StepLR(made.optimizer, 1, gamma=0.5)
        made.epochs()
        assert ENTRY.took_effect(made.replica()).took_effect
    assert found_step(made.optimizer) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        twin = made.twin()
        assert made.epochs() == twin.epochs()
        scheduler.step()
    assert made.optimizer.param_groups[0]["lr"] == 0.005


def test_hooks_run_once_a_step_in_python_and_closures_run():
    made, seen = training(torch.optim.SGD), []
    handle = register_optimizer_step_post_hook(lambda *_: seen.append(torch.compiler.is_compiling()))
    with ENTRY.apply(made.replica()):
        made.epochs()
        assert seen == [False] * 3
        assert made.optimizer.step(lambda: 42.0) == 42.0
    handle.remove()
    assert len(seen) == 4


def test_copies_and_pickles_have_a_plain_step():
    made = training(torch.optim.SGD, steps_before=1)
    with ENTRY.apply(made.replica()):
        made.epochs()
        for copied in (copy.deepcopy(made.optimizer), pickle.loads(pickle.dumps(made.optimizer))):
            assert "step" not in vars(copied)
            copied.step()
        assert made.optimizer.state_dict()["param_groups"][0]["lr"] == 0.01


def test_a_parameter_group_added_meanwhile_is_stepped_too():
    made = training(torch.optim.SGD)
    extra = torch.nn.Parameter(torch.ones(2))
    with ENTRY.apply(made.replica()):
        made.epochs()
        made.optimizer.add_param_group({"params": [extra], "lr": 0.1})
        extra.grad = torch.ones(2)
        seen = [extra.tolist()]
        for _ in range(3):
            made.optimizer.step()
            seen.append(extra.tolist())
        assert seen == [
            [1.0] * 2,
            [pytest.approx(0.9)] * 2,
            [pytest.approx(0.71)] * 2,
            [pytest.approx(0.439)] * 2,
        ]
        assert ENTRY.took_effect(made.replica()).took_effect


def test_layers_that_thaw_later_are_stepped_as_they_would_be():
    """Some parameters with momentum and some without, in one step: dynamo cannot trace it."""
    losses = []
    for apply in (ENTRY.apply, lambda _: contextlib.nullcontext()):
        made = training(torch.optim.SGD)
        made.model[0].requires_grad_(False)
        with apply(made.replica()):
            of_training = made.epochs()
            made.model[0].requires_grad_(True)
            losses.append(of_training + made.epochs(2))
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_an_interrupt_in_the_step_leaves_the_rates_plain():
    made = training(torch.optim.SGD)

    def interrupt(*_):
        raise KeyboardInterrupt

    handle = made.optimizer.register_step_post_hook(interrupt)
    with pytest.raises(KeyboardInterrupt), ENTRY.apply(made.replica()):
        made.epochs()
    handle.remove()
    assert made.optimizer.param_groups[0]["lr"] == 0.01


def test_an_explicit_foreach_keeps_its_number_for_a_rate():
    """torch refuses a tensor for a learning rate there."""
    made = training()
    for options in (*made.optimizer.param_groups, made.optimizer.defaults):
        options["foreach"] = True
    with ENTRY.apply(made.replica()):
        made.epochs()
        assert ENTRY.took_effect(made.replica()).took_effect
    assert "as_tensor" not in ENTRY.as_code(made.workload())


def test_a_step_of_the_users_own_is_left_alone():
    made = training()
    made.optimizer.step = lambda closure=None: None
    (reason,) = ENTRY.why_not(made.workload(), read_machine())
    assert "of your own" in str(reason)
    before = bits(made)
    with ENTRY.apply(made.replica()):
        made.epochs()
        assert not ENTRY.took_effect(made.replica()).took_effect
    assert bits(made)[:4] == before[:4]


def test_fused_steps_have_nothing_left_to_compile():
    made = training()
    made.optimizer.param_groups[0]["fused"] = True
    (reason,) = ENTRY.why_not(made.workload(), read_machine())
    assert "one kernel already" in str(reason)
    with pytest.raises(AccelError):
        Plan.parse("fused_optimizer+compile_optimizer")


def test_accumulated_gradients_go_through_the_compiled_step():
    made = training(torch.optim.SGD, steps_before=1)
    plan = Plan((ENTRY, GradientAccumulation(micro_batches=2)))
    before = wiring(made)
    with plan.apply(made.replica()):
        made.epochs(2)
        assert all(proof.took_effect for _, proof in plan.proofs(made.replica()))
        assert ENTRY.why_not(made.workload(), read_machine()) == []
    assert wiring(made) == before


def test_cuda_graphs_that_torch_leaves_out_are_told(monkeypatch):
    made, entry = training(torch.optim.SGD), CompileOptimizer(mode="reduce-overhead")
    with ENTRY.apply(made.replica()):
        made.epochs()
        monkeypatch.setattr(Replica, "device_type", "cuda")
        assert entry.took_effect(made.replica()).took_effect
        counters["inductor"]["cudagraph_skips"] += 1
        assert "left 1 CUDA graphs out" in entry.took_effect(made.replica()).evidence
        assert ENTRY.took_effect(made.replica()).took_effect


def test_two_entries_with_other_options_for_one_step_are_refused():
    made = training(torch.optim.SGD, steps_before=1)
    plan = Plan((CompileModel(backend="aot_eager", scope="step"), CompileOptimizer(backend="eager")))
    before = wiring(made)
    with pytest.raises(AccelError, match="the same mode and backend"), plan.apply(made.replica()):
        made.epochs()
    assert wiring(made) == before


def test_the_plain_code_lets_a_scheduler_go_on_counting():
    made = training(torch.optim.SGD)
    made.namespace["scheduler"] = scheduler = StepLR(made.optimizer, 1, gamma=0.5)
    exec(ENTRY.as_code(made.workload()), made.namespace)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.epochs()
        scheduler.step()
    assert float(made.optimizer.param_groups[0]["lr"]) == 0.005


def test_both_entries_that_compile_a_step_share_it():
    made = training(torch.optim.SGD, steps_before=1)
    plan = Plan((CompileModel(backend="aot_eager", scope="step"), ENTRY))
    before = wiring(made)
    with plan.apply(made.replica()):
        made.epochs()
        assert all(proof.took_effect for _, proof in plan.proofs(made.replica()))
    assert wiring(made) == before
