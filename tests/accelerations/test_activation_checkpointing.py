"""Blocks computed twice: statistics counted once, memory really freed, and only calls that train are touched."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
import types
import weakref
from contextlib import ExitStack

import pytest
import torch
from small_training import Training, bits, training, training_of_blocks
from torch import nn

from accel.accelerations.activation_checkpointing import ActivationCheckpointing
from accel.accelerations.autocast import Autocast
from accel.errors import AccelError
from accel.machine import read_machine
from accel.plans.live_plan import LivePlan
from accel.plans.plan import Plan
from accel.workload import Replica
from accel.workload.discovery import Discovery
from accel.workload.workload import Role

ENTRY = ActivationCheckpointing()


def bytes_kept(model, images):
    """Bytes of all tensors that autograd keeps until backward, the weights left out."""
    kept = {}
    weights = {p.data_ptr() for p in model.parameters()}

    def note(tensor):
        kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = model(images)
    del output
    return sum(size for pointer, size in kept.items() if pointer not in weights)


def test_activations_inside_a_block_are_not_kept():
    made, images = training_of_blocks(), torch.randn(4, 3, 8, 8)
    usual = bytes_kept(made.model, images)
    with ENTRY.apply(made.replica()):
        every = bytes_kept(made.model, images)
    with ActivationCheckpointing(every=2).apply(made.replica()):
        every_second = bytes_kept(made.model, images)
    assert every < every_second < usual


def everything_after(make, entry):
    made = make()
    with entry.apply(made.replica()) if entry else ExitStack():
        losses = made.epochs(2)
    return losses, bits(made)


@pytest.mark.parametrize("momentum", [0.1, None], ids=["running mean", "mean over all batches"])
def test_batchnorm_counts_each_batch_once(momentum):
    def make():
        made = training_of_blocks(torch.optim.SGD)
        made.model[0][1].momentum = momentum
        return made

    assert everything_after(make, ENTRY) == everything_after(make, None)


def test_instance_norm_with_running_statistics_counts_once():
    def make():
        made = training_of_blocks(torch.optim.SGD)
        made.model[0][1] = nn.InstanceNorm2d(4, track_running_stats=True)
        return made

    assert everything_after(make, ENTRY) == everything_after(make, None)


def test_the_plain_code_counts_each_batch_once_too():
    live, plain = training_of_blocks(), training_of_blocks()
    with ENTRY.apply(live.replica()):
        live.epochs(2)
    exec(ENTRY.as_code(plain.workload()), plain.namespace)
    plain.epochs(2)
    assert bits(plain) == bits(live)


def test_the_plain_code_may_run_again_and_its_model_can_be_copied():
    made = training_of_blocks()
    for _ in range(2):
        exec(ENTRY.as_code(made.workload()), made.namespace)
    assert type(made.model[0]).__mro__.count(nn.Sequential) == 1
    assert sum(kind.__name__ == "Recomputed" for kind in type(made.model[0]).__mro__) == 1
    copied = copy.deepcopy(made.model).eval()
    with torch.no_grad():
        made.model.eval()[3].weight.zero_()
        assert not torch.equal(copied(torch.ones(1, 3, 8, 8)), made.model(torch.ones(1, 3, 8, 8)))


def test_under_autocast_the_second_time_runs_in_bfloat16_too():
    def losses(*entries):
        made = training_of_blocks()
        with Plan(entries).apply(made.replica()):
            return made.epochs(2)

    assert losses(ENTRY, Autocast()) == losses(Autocast())


@pytest.mark.skipif(
    not torch.distributed.is_available(), reason="this torch is built without torch.distributed"
)
def test_blocks_inside_distributed_data_parallel():
    def losses(entry):
        made = training_of_blocks()
        made.model = nn.parallel.DistributedDataParallel(made.model)
        with entry.apply(made.replica()) if entry else ExitStack():
            found = made.epochs(2)
            assert entry is None or "2 of 2" in entry.took_effect(made.replica()).evidence
        return found

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        assert losses(ENTRY) == losses(None)
    finally:
        torch.distributed.destroy_process_group()


def test_without_gradients_nothing_is_computed_twice():
    made = training_of_blocks()
    with ENTRY.apply(made.replica()), torch.no_grad():
        made.model(torch.ones(1, 3, 8, 8))
        assert not ENTRY.took_effect(made.replica()).took_effect


def test_blocks_that_are_called_by_name_and_with_keywords():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x, *, debug, scale):
            return torch.tanh(self.linear(x)) * scale if debug else x

    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(3))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x, debug=True, scale=x.mean())
            return x

    def gradient(entry):
        torch.manual_seed(0)
        model = Stack()
        replica = Replica(models={"model": model})
        with entry.apply(replica) if entry else ExitStack():
            model(torch.ones(2, 4)).sum().backward()
            assert entry is None or "3 of 3" in entry.took_effect(replica).evidence
        return model.layers[0].linear.weight.grad

    assert torch.equal(gradient(ENTRY), gradient(None))


def test_layers_of_a_block_are_not_taken_for_models_when_they_are_computed_again():
    made, found = training_of_blocks(), []
    with (
        ENTRY.apply(made.replica()),
        Discovery(found.append, known=[made.model, made.optimizer, made.loader]),
    ):
        made.epochs()
    assert found == []


def test_a_kept_plan_reaches_a_model_that_the_cell_builds_anew():
    made = training_of_blocks()
    workload = made.workload()
    live = LivePlan(workload)
    live.keep(Plan((ENTRY,)))
    anew = training_of_blocks()
    workload.namespace["model"] = anew.model
    anew.epochs()
    assert ENTRY.took_effect(anew.replica()).took_effect
    live.undo()
    assert "_compiled_call_impl" not in vars(anew.model[0])


def test_a_block_that_changes_a_buffer_of_its_own_is_refused_by_name():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            return self.linear(x) * self.calls

    model = nn.Sequential(Counting())
    with ENTRY.apply(Replica(models={"model": model})), pytest.raises(AccelError, match="0 changes a buffer"):
        model(torch.ones(1, 4))


def test_a_block_that_changes_its_input_in_place_is_refused_by_name():
    """Else torch finds out in backward, and names an operation in place of the block."""

    class Pre(nn.Module):
        def __init__(self):
            super().__init__()
            self.relu, self.linear = nn.ReLU(inplace=True), nn.Linear(4, 4)

        def forward(self, x):
            return self.linear(self.relu(x))

    model = nn.Sequential(nn.Linear(4, 4), Pre())
    with (
        ENTRY.apply(Replica(models={"model": model})),
        pytest.raises(AccelError, match="1 changes its input"),
    ):
        model(torch.randn(2, 4))


def test_a_model_with_the_plain_code_can_be_pickled(monkeypatch):
    """In a module of its own, as a notebook is one: pickle asks it for the classes by name."""
    made = training_of_blocks()
    made.model[1].__class__ = type("Other", (nn.Sequential,), {})
    notebook = types.ModuleType("notebook_of_this_test")
    monkeypatch.setitem(sys.modules, notebook.__name__, notebook)
    vars(notebook).update(made.namespace)
    for _ in range(2):
        exec(ENTRY.as_code(made.workload()), vars(notebook))
    images = torch.ones(1, 3, 8, 8)
    notebook.Other = type(made.model[1]).__mro__[2]
    copied = pickle.loads(pickle.dumps(made.model.eval()))
    assert torch.equal(copied(images), made.model(images))
    assert type(copied[0]) is type(made.model[0]) is not type(copied[1])


def test_the_plain_code_for_a_model_without_a_name_says_what_is_missing():
    made = training_of_blocks()
    role = Role("models", "built", True, weakref.ref(nn.Linear(1, 1)))
    code = ENTRY.as_code(dataclasses.replace(made.workload(), roles=(role,)))
    assert "# The blocks of built" in code
    exec(code, {})


def test_replicas_of_data_parallel_are_a_reason():
    found = reasons(nn.DataParallel(training_of_blocks().model))
    assert any("DataParallel" in str(reason) for reason in found)


def reasons(model):
    made = training()
    return ENTRY.why_not(
        Training(**made.namespace | {"model": model}, built_by=training).workload(), read_machine()
    )


def test_a_model_without_blocks_is_told_what_blocks_are():
    (reason,) = reasons(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    assert reason.because.startswith("No model has blocks")


@pytest.mark.parametrize("normed", [nn.utils.spectral_norm, nn.utils.parametrizations.spectral_norm])
def test_a_spectral_norm_is_a_reason(normed):
    (reason,) = reasons(nn.Sequential(nn.Sequential(normed(nn.Linear(2, 2)), nn.ReLU())))
    assert reason.because.startswith("model.0 has a spectral norm")


def test_a_lazy_layer_is_a_reason():
    (reason,) = reasons(nn.Sequential(nn.Sequential(nn.LazyLinear(2), nn.ReLU())))
    assert "lazy" in str(reason)


def test_a_model_that_is_compiled_is_a_reason():
    model = training_of_blocks().model
    model.compile()
    (reason,) = reasons(model)
    assert "is compiled" in str(reason)


def test_less_than_every_block_is_an_error():
    with pytest.raises(AccelError, match="every=0"):
        ActivationCheckpointing(every=0)
