"""Pinning that fails ends no training, and only copies out of pinned memory are not waited for."""

from __future__ import annotations

import pytest
import torch
from small_training import training

from accel.accelerations.pin_memory import PinMemory
from accel.accelerations.prefetch_to_device import PrefetchToDevice
from accel.machine import read_machine
from accel.plans.live_plan import LivePlan
from accel.plans.plan import Plan
from accel.techniques.data.copies_without_waiting import without_waiting
from accel.workload import Replica

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="pins memory here")


@no_gpu
@pytest.mark.parametrize("workers", [0, 1])
def test_where_memory_cannot_be_pinned_training_goes_on_and_the_proof_says_why(monkeypatch, workers):
    """Without a driver torch refuses to pin, as it does where a container may not lock memory."""
    made = training()
    torch.manual_seed(0)
    usual = [images for images, _ in made.loader]
    options = {"num_workers": workers, "prefetch_factor": 2 if workers else None}
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    monkeypatch.setattr(torch.accelerator, "set_device_index", lambda index: None)
    made = training()
    vars(made.loader).update(options, pin_memory=True)
    with pytest.raises(RuntimeError):
        list(made.loader)
    made = training()
    vars(made.loader).update(options)
    with PinMemory().apply(made.replica()):
        torch.manual_seed(0)
        assert all(map(torch.equal, (images for images, _ in made.loader), usual))
        proof = PinMemory().took_effect(made.replica())
    assert not proof.took_effect
    assert "0 of 6 tensors came in pinned memory; memory could not be pinned: " in proof.evidence


class Copy:
    """What `Tensor.to` was called with."""

    def __init__(self, name):
        self.__name__ = name
        self.asked = []

    def __call__(self, tensor, *args, **kwargs):
        self.asked.append(kwargs.get("non_blocking", False))
        return tensor


class Pinned(torch.Tensor):
    """A tensor that says that it lies in pinned memory, which there is not without a GPU."""

    def is_pinned(self):
        return True


def waits(name, tensor, *args, **kwargs):
    original = Copy(name)
    without_waiting(original)(tensor, *args, **kwargs)
    return not original.asked[0]


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("to", ("cuda",), {}),
        ("to", ("cuda:1", torch.float16), {}),
        ("to", (torch.device("cuda"),), {}),
        ("to", (0,), {}),
        ("to", (), {"device": "cuda"}),
        ("cuda", (), {}),
        ("cuda", (1,), {}),
        ("cuda", (None,), {}),
    ],
)
def test_copies_from_pinned_memory_to_a_gpu_are_not_waited_for(name, args, kwargs):
    assert not waits(name, torch.ones(2).as_subclass(Pinned), *args, **kwargs)
    assert waits(name, torch.ones(2), *args, **kwargs)


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("to", (torch.float16,), {}),
        ("to", ("cpu",), {}),
        ("to", (torch.ones(1),), {}),
        ("to", (), {"dtype": torch.float16}),
        ("to", (), {"memory_format": torch.channels_last}),
        ("to", ("cuda", torch.float16, False), {}),
        ("to", ("cuda",), {"non_blocking": False}),
        ("cuda", (None, False), {}),
    ],
)
def test_what_is_no_such_copy_or_says_itself_is_left_alone(name, args, kwargs):
    assert waits(name, torch.ones(2).as_subclass(Pinned), *args, **kwargs)


def test_tensors_work_as_before_and_the_methods_come_back():
    before = "to" in vars(torch.Tensor)
    with PinMemory().apply(Replica()):
        assert torch.ones(2).to(torch.float64).dtype == torch.float64
        assert torch.ones(2).to("cpu", torch.int32).dtype == torch.int32
        assert torch.ones(1).to(torch.ones(1, dtype=torch.int8)).dtype == torch.int8
        model = torch.compile(lambda x: x.to(torch.float64) + 1, backend="eager", fullgraph=True)
        assert model(torch.ones(2)).dtype == torch.float64
    assert ("to" in vars(torch.Tensor)) == before


def test_methods_of_tensors_are_changed_for_the_whole_process_only():
    made, before = training(), torch.Tensor.to
    with PinMemory().apply(Replica(loaders={"loader": made.loader}, is_process_wide=False)):
        assert torch.Tensor.to is before
        assert made.loader.pin_memory
    with PinMemory(non_blocking=False).apply(made.replica()):
        assert torch.Tensor.to is before


def test_kept_for_objects_one_by_one_everything_comes_back():
    made, before = training(), (torch.Tensor.to, torch.utils.data._utils.pin_memory.pin_memory)
    live = LivePlan(made.workload())
    live.keep(Plan((PinMemory(),)))
    assert made.loader.pin_memory
    assert torch.Tensor.to is not before[0]
    live.undo()
    assert not made.loader.pin_memory
    assert (torch.Tensor.to, torch.utils.data._utils.pin_memory.pin_memory) == before


@no_gpu
def test_a_machine_without_a_gpu_is_a_reason():
    (reason,) = PinMemory().why_not(training().workload(), read_machine())
    assert reason.because == "There is no CUDA GPU here, and batches need not be copied to one"
    assert reason.do == "Leave this off on a CPU."


def test_exported_code_that_runs_again_wraps_the_methods_of_tensors_once():
    made = training()
    code = PinMemory().as_code(made.workload())
    own = {name: vars(torch.Tensor).get(name) for name in ("to", "cuda")}
    try:
        exec(code, made.namespace)
        once = torch.Tensor.to, torch.Tensor.cuda
        exec(code, made.namespace)
        assert (torch.Tensor.to, torch.Tensor.cuda) == once
    finally:
        for name, before in own.items():
            delattr(torch.Tensor, name) if before is None else setattr(torch.Tensor, name, before)


@pytest.mark.parametrize("entry", [PinMemory(), PrefetchToDevice()], ids=str)
def test_for_one_loader_alone_a_refused_pin_is_handled_and_copies_do_not_wait_either(entry):
    made, before = training(), (torch.Tensor.to, torch.utils.data._utils.pin_memory.pin_memory)
    live = LivePlan(made.workload())
    live.keep(Plan((entry,)).only_on("loader"))
    assert made.loader.pin_memory
    assert torch.utils.data._utils.pin_memory.pin_memory is not before[1]
    assert (torch.Tensor.to is not before[0]) == (type(entry) is PinMemory)
    live.undo()
    assert (torch.Tensor.to, torch.utils.data._utils.pin_memory.pin_memory) == before
