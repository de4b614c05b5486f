"""Each event is heard once where the loop has it, and nothing of torch is changed where nobody listens."""

from __future__ import annotations

import sys

import torch
from torch import nn
from torch.optim import optimizer as hooks
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from accel.hooks.attribute_patches import AttributePatches
from accel.hooks.training_loop import (
    after_step,
    before_step,
    is_inside_another_step,
    is_traced,
    wrap_backward,
    wrap_batch,
    wrap_iterator,
    wrap_module_call,
)


def torch_as_it_is():
    places = [(nn.Module, "__call__"), (DataLoader, "__iter__"), (_BaseDataLoaderIter, "__next__")]
    found = [vars(owner)[name] for owner, name in [*places, (torch.autograd, "_engine_run_backward")]]
    return [*found, dict(hooks._global_optimizer_pre_hooks), dict(hooks._global_optimizer_post_hooks)]


def saying(name, heard):
    def make(original):
        def call(*args, **kwargs):
            heard.append(name)
            return original(*args, **kwargs)

        return call

    return make


def train():
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(torch.ones(4, 2), batch_size=2):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()


def test_the_events_of_a_loop_come_in_the_order_in_which_it_is_written():
    before, heard, patches = torch_as_it_is(), [], AttributePatches()
    for wrap in (wrap_module_call, wrap_iterator, wrap_batch, wrap_backward):
        wrap(patches, saying(wrap.__name__, heard))
    before_step(patches, lambda *_: heard.append("before_step"))
    after_step(patches, lambda *_: heard.append("after_step"))
    try:
        train()
    finally:
        patches.take_back()
    step = ["wrap_batch", "wrap_module_call", "wrap_backward", "before_step", "after_step"]
    assert heard == ["wrap_iterator", *step, *step, "wrap_batch"]
    assert torch_as_it_is() == before
    train()
    assert len(heard) == 12


def test_listening_to_one_event_changes_only_the_place_of_that():
    before, patches = torch_as_it_is(), AttributePatches()
    wrap_backward(patches, saying("backward", []))
    try:
        assert [old is new for old, new in zip(before[:4], torch_as_it_is()[:4], strict=True)] == [
            True
        ] * 3 + [False]
        assert torch_as_it_is()[4:] == before[4:]
    finally:
        patches.take_back()


def test_a_step_that_another_step_makes_is_known_as_its_part():
    class Twice(torch.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            return super().step(closure)

    inside, patches = [], AttributePatches()
    after_step(patches, lambda *_: inside.append(is_inside_another_step(sys._getframe(1))))
    parameter = nn.Parameter(torch.ones(1))
    try:
        parameter.sum().backward()
        Twice([parameter], lr=0.1).step()
    finally:
        patches.take_back()
    assert inside == [True, True, False]


def test_a_pass_over_tensors_that_stand_for_others_is_a_tracing_one():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(1)
    assert is_traced((fake,))
    assert not is_traced((torch.ones(1),))
    assert not is_traced(())
