"""What a plain pickle drops or refuses is whole in a copy, and shares what it shared."""

from __future__ import annotations

import os
import queue
import sys
import threading
import warnings
import weakref
from typing import Any, ClassVar

import pytest
import torch
from torch import nn
from torch.autograd.graph import register_multi_grad_hook
from torch.nn.utils import parametrizations

from accel.workload.memory_file import MemoryFile
from accel.workload.shipping import dump, load, pack_cell, unpack
from accel.workload.workload import look_up


@pytest.fixture(autouse=True)
def _own_main(monkeypatch):
    """Restore `__main__` after each test: `unpack` replaces it."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


def copied(contents):
    memory = MemoryFile()
    return load(dump(contents, memory), memory)


def test_hooks_of_parameters_are_there_and_their_handles_remove_them():
    model, log = nn.Linear(3, 3), []
    model.weight.register_hook(lambda gradient: gradient * 0)
    handle = model.bias.register_hook(lambda gradient: gradient * 2)
    model.weight.register_post_accumulate_grad_hook(lambda p: log.append(p is model.weight))
    register_multi_grad_hook(list(model.parameters()), lambda gradients: log.append(len(gradients)))
    twin, handle, log = copied((model, handle, log))
    twin(torch.ones(1, 3)).sum().backward()
    assert (twin.bias.grad.tolist(), twin.weight.grad.abs().sum().item()) == ([2.0] * 3, 0.0)
    assert sorted(log) == [True, 2]
    handle.remove()
    twin.bias.grad = None
    twin(torch.ones(1, 3)).sum().backward()
    assert twin.bias.grad.tolist() == [1.0] * 3


@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm", "orthogonal"])
def test_parametrized_modules_give_equal_results(name):
    model = getattr(parametrizations, name)(nn.Linear(4, 4)).eval()
    twin, x = copied(model), torch.randn(2, 4)
    assert torch.equal(twin(x), model(x))
    assert type(twin).__name__ == "ParametrizedLinear"


def test_modules_of_torchscript_share_their_parameters_with_an_optimizer():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))
        traced = torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    twin, adam, other = copied((model, optimizer, traced))
    assert (
        {id(p) for p in twin.parameters()}
        == {id(p) for p in adam.param_groups[0]["params"]}
        == set(map(id, adam.state))
    )
    assert torch.equal(twin.eval()(torch.ones(2, 3)), model.eval()(torch.ones(2, 3)))
    assert torch.equal(other(torch.ones(1, 2)), traced(torch.ones(1, 2)))


class Node:
    pass


def test_weak_references_lead_into_the_copy():
    one, other = Node(), Node()
    one.ref, one.proxy, one.set, other.number = (
        weakref.ref(one),
        weakref.proxy(other),
        weakref.WeakSet([one, other]),
        5,
    )
    one.keys, one.values = weakref.WeakKeyDictionary({other: 2}), weakref.WeakValueDictionary({"x": one})
    one.dead = weakref.ref(Node())
    twin, its = copied((one, other))
    assert (twin.ref() is twin, twin.proxy.number, set(twin.set)) == (True, 5, {twin, its})
    assert (twin.keys[its], twin.values["x"] is twin, twin.dead()) == (2, True, None)


def test_what_only_a_weak_reference_leads_to_lives_as_long_as_the_copy():
    model = nn.Linear(2, 2)
    namespace = {"__name__": "__main__", "owner": weakref.ref(model)}
    parcel = pack_cell("owner", "<cell>", namespace, ["owner"])
    copy = unpack(parcel.blob, MemoryFile(os.dup(parcel.memory.descriptor)))
    assert copy["owner"]().out_features == 2
    parcel.close()


def test_locks_are_new_ones_and_threads_stay():
    node = Node()
    node.locks = [threading.Lock(), threading.RLock(), threading.Condition(), threading.Semaphore()]
    node.queue, node.event = queue.Queue(), threading.Event()
    node.queue.put(3)
    node.locks[0].acquire()
    twin = copied(node)
    assert all(lock.acquire(timeout=1) for lock in twin.locks)
    assert (twin.queue.get(timeout=1), twin.event.is_set()) == (3, False)
    with pytest.raises(TypeError, match="a thread stays in its process"):
        copied(threading.Thread())


def test_an_optimizer_keeps_what_its_class_and_its_user_added():
    class Around(torch.optim.SGD):
        def __init__(self, params):
            super().__init__(params, lr=0.1)
            self.base = torch.optim.Adam(self.param_groups)
            self.param_groups = self.base.param_groups

    model, calls = nn.Linear(2, 2), []
    optimizer = Around(model.parameters())
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    model, twin, calls = copied((model, optimizer, calls))
    model(torch.ones(1, 2)).sum().backward()
    twin.step()
    assert twin.base.param_groups is twin.param_groups
    assert calls == [1]


def test_functions_that_were_made_together_go_on_sharing_what_they_bind():
    def made():
        count = 0

        def add():
            nonlocal count
            count += 1

        return add, lambda: count

    add, read = copied(made())
    add()
    assert read() == 1


def test_words_stay_the_objects_that_code_has_and_lazy_layers_keep_their_type():
    word = sys.intern("conv" + "2d")
    assert copied([word])[0] is word
    assert copied(nn.LazyLinear(2).double())(torch.ones(1, 3, dtype=torch.float64)).dtype == torch.float64


def test_a_class_that_takes_something_from_the_original_takes_nothing():
    class Guide(nn.Module):
        def __init__(self):
            super().__init__()
            self._model = (nn.Linear(2, 2),)

        def __getstate__(self):
            self._model = None
            return self.__dict__.copy()

    guide = Guide()
    assert copied(guide)._model[0].out_features == 2
    assert guide._model is not None


class Shared:
    """All objects have the same attributes, as Accelerate's states."""

    _shared_state: ClassVar[dict[str, Any]] = {}

    def __init__(self, **given: Any) -> None:
        self.__dict__ = self._shared_state
        self.__dict__.update(given)


def test_state_that_all_objects_of_a_library_class_share_is_restored_on_arrival():
    memory = MemoryFile()
    parcel = dump(Shared(device="cpu"), memory)
    Shared._shared_state.clear()  # as in a process that has only imported the library
    arrived = load(parcel, memory)
    assert Shared().device == "cpu"
    Shared(device="meta")
    assert arrived.device == "meta"
    assert load(parcel, memory).device == "meta", "state that the process has is kept"


def test_an_attribute_is_found_by_its_dotted_name_if_modules_is_a_list():
    class Wrapper:
        def __init__(self) -> None:
            self._modules, self.inner = ["inner"], nn.Linear(2, 2)

    wrapper = Wrapper()
    assert look_up({"net": wrapper}, "net.inner") is wrapper.inner
    assert look_up({"net": wrapper}, "net.other") is None
