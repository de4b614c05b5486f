"""Ways in which an acceleration could quietly go wrong, each with the training that showed it."""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import os
import pickle
import sys

import psutil
import pytest
import torch
from small_training import training, wiring
from torch import nn

from accel.accelerations import Proof
from accel.accelerations.autocast import Autocast
from accel.accelerations.channels_last import ChannelsLast
from accel.accelerations.fused_optimizer import FusedOptimizer
from accel.accelerations.loader_workers import LoaderWorkers
from accel.accelerations.steady_allocator import (
    SteadyAllocator,
    allocator_name,
    fix_thresholds,
    is_steady,
    use_steady_thresholds,
)
from accel.machine import read_machine
from accel.plans.plan import Plan
from accel.workload import Replica

each_optimizer = pytest.mark.parametrize(
    "optimizer",
    [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad],
    ids=lambda kind: kind.__name__,
)


@each_optimizer
def test_fused_kernels_meet_state_in_the_layout_of_the_weights(optimizer):
    """With state laid out otherwise than its weights, a fused step pairs the wrong numbers: SGD then diverges."""
    usual = training(optimizer, steps_before=1).epochs(2)
    made = training(optimizer, steps_before=1)
    with Plan((ChannelsLast(), FusedOptimizer())).apply(made.replica()):
        assert made.epochs(2) == pytest.approx(usual, rel=1e-3)
    twin = made.twin()
    assert made.epochs() == twin.epochs()


@each_optimizer
def test_an_optimizer_that_only_the_cell_knows_gets_the_layout_too(optimizer):
    """The cell's own optimizer was fused by its user; only the model is known here."""
    usual, made = training(optimizer, steps_before=1), training(optimizer, steps_before=1)
    for options in (*made.optimizer.param_groups, *usual.optimizer.param_groups):
        options.update(fused=True, foreach=None)
    expected = usual.epochs(2)
    with ChannelsLast().apply(Replica(models={"model": made.model})):
        assert made.epochs(2) == pytest.approx(expected, rel=1e-3)
    assert made.epochs() == pytest.approx(usual.epochs(), rel=1e-2)


def test_the_plain_code_of_channels_last_alone_minds_a_fused_optimizer():
    live, plain = training(steps_before=1), training(steps_before=1)
    for made in (live, plain):
        made.optimizer.param_groups[0].update(fused=True)
    with ChannelsLast().apply(live.replica()):
        expected = live.epochs(2)
    exec(ChannelsLast().as_code(plain.workload()), plain.namespace)
    assert plain.epochs(2) == expected


def test_a_parameter_group_added_meanwhile_gets_the_flags_it_would_have_got():
    made = training()
    with FusedOptimizer().apply(made.replica()):
        made.optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))]})
        assert made.optimizer.param_groups[1]["fused"] is True
    assert [(group["fused"], group["foreach"]) for group in made.optimizer.param_groups] == [(None, None)] * 2


@pytest.mark.parametrize(
    "kind", [torch.optim.RMSprop, torch.optim.NAdam, torch.optim.RAdam], ids=lambda kind: kind.__name__
)
def test_an_optimizer_without_a_fused_kernel_updates_all_parameters_together(kind):
    usual, made, entry = (
        training(kind, steps_before=1),
        training(kind, steps_before=1),
        FusedOptimizer("foreach"),
    )
    (reason,) = FusedOptimizer().why_not(made.workload(), read_machine())
    assert 'Write fused_optimizer(kind="foreach")' in str(reason)
    assert entry.why_not(made.workload(), read_machine()) == []
    with entry.apply(made.replica()):
        assert made.epochs() == pytest.approx(usual.epochs(), rel=1e-3)
        assert entry.took_effect(made.replica()) == Proof(
            True, "3 of 3 updates of parameter groups were foreach"
        )
        assert entry.why_not(made.workload(), read_machine()) == []
    made.optimizer.param_groups[0]["foreach"] = True
    (reason,) = entry.why_not(made.workload(), read_machine())
    assert "together already" in str(reason)


def test_updates_are_torchs_own_functions_again_whichever_optimizer_is_undone_first():
    first, second, before = training(), training(), dict(vars(sys.modules["torch.optim.adam"]))
    plans = [FusedOptimizer().apply(made.replica()) for made in (first, second)]
    for plan in plans:
        plan.__enter__()
    plans[0].__exit__(None, None, None)
    first.epochs()
    second.epochs()
    assert FusedOptimizer().took_effect(second.replica()).evidence.startswith("3 of 3")
    assert not FusedOptimizer().took_effect(first.replica()).took_effect
    plans[1].__exit__(None, None, None)
    assert dict(vars(sys.modules["torch.optim.adam"])) == before


def test_flags_are_as_before_where_setting_up_fails(monkeypatch):
    from accel.accelerations import fused_optimizer

    def no_memory(optimizer):
        raise MemoryError

    made = training(steps_before=1)
    before = wiring(made)
    monkeypatch.setattr(fused_optimizer, "same_layout", no_memory)
    with pytest.raises(MemoryError), FusedOptimizer().apply(made.replica()):
        made.epochs()
    assert wiring(made) == before


def test_an_optimizer_without_a_fused_kernel_is_left_alone_when_the_cell_builds_it():
    made = training(torch.optim.LBFGS)
    before = copy.deepcopy(made.optimizer.state_dict())
    with FusedOptimizer().apply(made.replica()):
        assert made.optimizer.state_dict() == before
        assert not FusedOptimizer().took_effect(made.replica()).took_effect


def test_a_copy_of_the_model_made_by_the_exported_code_has_weights_of_its_own():
    """`best = copy.deepcopy(model)` is common in training cells; a patched `forward` would go on calling the original."""
    made = training()
    names = made.namespace
    for entry in (ChannelsLast(), Autocast()):
        exec(entry.as_code(made.workload()), names)
    copied, images = copy.deepcopy(made.model), torch.ones(4, 3, 8, 8)
    with torch.no_grad():
        before = copied(images)
        made.model[0].weight.zero_()
        assert torch.equal(copied(images), before)
    assert made.model(images).dtype == torch.float32


def test_autocast_returns_float32_inside_containers_and_keeps_other_dtypes():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            return {"out": self.linear(x), "index": torch.arange(2)}

    model = Two()
    with Autocast().apply(Replica(models={"model": model})):
        output = model(torch.ones(1, 2))
    assert (output["out"].dtype, output["index"].dtype) == (torch.float32, torch.int64)


def test_expanded_buffers_and_shared_weights_survive_a_change_of_layout():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 3)
            self.same = nn.Conv2d(3, 3, 3)
            self.same.weight = self.conv.weight
            self.register_buffer("mask", torch.ones(1).expand(1, 3, 4, 4))

    model = Odd()
    before = [(t.data_ptr(), t.stride()) for t in model.buffers()], model.conv.weight.stride()
    with ChannelsLast().apply(Replica(models={"model": model})):
        assert model.same.weight is model.conv.weight
        assert model.conv.weight.is_contiguous(memory_format=torch.channels_last)
    assert ([(t.data_ptr(), t.stride()) for t in model.buffers()], model.conv.weight.stride()) == before


def children():
    return {child.pid for child in psutil.Process().children(recursive=True)}


def test_persistent_workers_end_with_the_plan():
    made, before = training(), children()
    with LoaderWorkers(n=1, persistent=True).apply(made.replica()):
        made.epochs(2)
        assert children() - before
    assert children() <= before
    assert list(vars(made.loader)) == list(vars(training().loader))


@pytest.mark.parametrize("persistent", [False, True])
def test_a_loader_that_keeps_its_workers_gets_another_number_of_them_and_the_same_samples(persistent):
    def keeping():
        made = training()
        vars(made.loader).update(num_workers=1, prefetch_factor=2, persistent_workers=True)
        return made

    expected, made, other = keeping().epochs(3), keeping(), LoaderWorkers(n=2, persistent=persistent)
    with other.apply(made.replica()):
        assert pickle.loads(pickle.dumps(made.loader))._get_iterator.keeps_own
        assert made.epochs(3) == expected
        assert made.loader._iterator._persistent_workers
        assert other.took_effect(made.replica()).took_effect
    assert made.loader.num_workers == 1


def test_an_epoch_that_is_being_read_goes_on_after_undo():
    made = training()
    with LoaderWorkers(n=1).apply(made.replica()):
        batches = iter(made.loader)
        next(batches)
    assert len(list(batches)) == 2


def test_a_copy_of_a_loader_made_meanwhile_starts_workers_of_its_own():
    made = training()
    expected = made.epochs()
    made = training()
    with LoaderWorkers(n=1).apply(made.replica()):
        for copied in (copy.deepcopy(made.loader), pickle.loads(pickle.dumps(made.loader))):
            assert vars(copied)["_get_iterator"]._loader() is copied
            assert len(list(copied)) == 3
        assert made.epochs() == expected


def test_thresholds_that_the_worker_set_itself_stay_after_a_plan():
    assert allocator_name() == "glibc"
    assert use_steady_thresholds()
    with SteadyAllocator().apply(Replica()):
        assert is_steady()
    assert is_steady()
    assert fix_thresholds()
    assert not is_steady()


@pytest.mark.parametrize("largest", [1 << 31, 1 << 25], ids=["this glibc", "an older one"])
def test_the_plain_code_sets_the_thresholds_that_are_set_live(monkeypatch, largest):
    """An older glibc refuses a threshold of mmap above 32 MiB, without a word."""
    accepted = []

    def mallopt(option, value):
        is_accepted = option != -3 or value <= largest
        accepted.extend([(option, value)] * is_accepted)
        return int(is_accepted)

    usual = ctypes.CDLL(None)
    libc = type(
        "Library",
        (),
        {"mallopt": staticmethod(mallopt), "__getattr__": lambda self, name: getattr(usual, name)},
    )
    monkeypatch.setattr(ctypes, "CDLL", lambda name: libc())
    assert use_steady_thresholds()
    live, accepted = accepted, []
    exec(SteadyAllocator().as_code(training().workload()), {})
    assert accepted == live
    assert (-3, min(largest, 1 << 30)) in live


def test_thresholds_from_the_environment_are_a_reason(monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.top_pad=1000")
    (reason,) = SteadyAllocator().why_not(training().workload(), read_machine())
    assert "GLIBC_TUNABLES" in str(reason)


def test_emulated_bfloat16_is_a_reason_on_a_cpu():
    machine = dataclasses.replace(read_machine(), isa=("avx2",))
    assert any(
        "no bfloat16 instructions" in str(reason)
        for reason in Autocast().why_not(training().workload(), machine)
    )


def test_code_that_was_compiled_for_other_threads_is_not_taken_from_the_cache(monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/cache")
    with Plan.parse("intraop_threads(n=1)").apply(Replica()):
        assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "/cache/python/1-threads"
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "/cache"
