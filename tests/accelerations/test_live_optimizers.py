"""All optimizers of a process are known without a search at each model that a cell builds."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest
import torch
from torch import nn

from accel.plans.plan import Plan
from accel.techniques.steps import live_optimizers as known_optimizers
from accel.techniques.steps.live_optimizers import live_optimizers, noted_optimizers
from accel.workers.found_objects import FoundObjects
from accel.workload.discovery import Discovery
from accel.workload.replica import Replica


@pytest.fixture
def searches(monkeypatch):
    """How often all objects were searched."""
    counted = []

    class Counted:
        @staticmethod
        def get_referrers(*things):
            counted.append(things)
            return gc.get_referrers(*things)

    monkeypatch.setattr(known_optimizers, "gc", Counted)
    return counted


class OwnOptimizer(torch.optim.SGD):
    pass


def built():
    return torch.optim.Adam([nn.Parameter(torch.ones(2))])


def ids():
    return {id(optimizer) for optimizer in live_optimizers()}


def test_those_of_before_and_those_built_copied_and_unpickled_since_are_known_after_one_search(searches):
    before = built(), OwnOptimizer([nn.Parameter(torch.ones(2))], lr=0.1)
    with noted_optimizers():
        early = built()
        assert {id(each) for each in (*before, early)} <= ids()
        late = built(), copy.deepcopy(early), copy.copy(before[0]), pickle.loads(pickle.dumps(before[1]))
        assert {id(each) for each in (*before, early, *late)} <= ids()
        gone = id(late[0])
        late = late[1:]
        gc.collect()
        assert gone not in ids()
    assert len(searches) == 1


def test_without_a_plan_each_question_is_a_search_and_the_class_is_untouched(searches):
    ours = dict(vars(torch.optim.Optimizer))
    with Plan.parse("autocast").apply(Replica()), Plan.parse("channels_last").apply(Replica()):
        pass
    assert dict(vars(torch.optim.Optimizer)) == ours
    one = built()
    assert id(one) in ids()
    assert id(one) in ids()
    assert len(searches) == 2


def train(momentum):
    """A cell that builds a four-layer model, whose optimizer has a state before the model is first called."""
    torch.manual_seed(0)
    model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Conv2d(3, 3, 3, padding=1), nn.ReLU())))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    for parameter in model.parameters():
        optimizer.state[parameter]["momentum_buffer"] = torch.full_like(parameter, momentum)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 3, 8, 8)).square().mean().backward()
        optimizer.step()
    return model, optimizer


def test_a_cell_that_builds_its_model_run_after_run_costs_one_search_and_its_state_is_laid_out_each_time(
    searches,
):
    plan = Plan.parse("channels_last")
    found = FoundObjects(plan, [Replica()])
    plainly = [train(momentum)[0](torch.ones(1, 3, 8, 8)) for momentum in (0.1, 0.2, 0.3)]
    with plan.apply(Replica()), found.taken_back(), Discovery(found.take, known=[]):
        for momentum, expected in zip((0.1, 0.2, 0.3), plainly, strict=True):
            found.run_begins()
            model, optimizer = train(momentum)
            states = [optimizer.state[p]["momentum_buffer"] for p in model.parameters() if p.dim() == 4]
            assert all(state.is_contiguous(memory_format=torch.channels_last) for state in states)
            torch.testing.assert_close(model(torch.ones(1, 3, 8, 8)), expected)
    assert len(searches) == 1


class Hostile(torch.optim.SGD):
    """An optimizer of another training; reading its attributes raises."""

    is_armed = False

    def __getattribute__(self, name):
        if name in ("state", "param_groups", "__dict__") and type(self).is_armed:
            raise LookupError(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize("plan", ["channels_last", "prune"])
def test_another_trainings_optimizer_that_raises_does_not_matter(monkeypatch, plan):
    other = Hostile(nn.Linear(2, 2).parameters(), lr=0.1)
    model = nn.Sequential(nn.Conv2d(4, 8, 3), nn.Conv2d(8, 4, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.randn(2, 4, 8, 8)).sum().backward()
    optimizer.step()
    monkeypatch.setattr(Hostile, "is_armed", True)
    replica = Replica(models={"model": model}, optimizers={"optimizer": optimizer})
    with Plan.parse(plan).apply(replica):
        assert any(each is other for each in live_optimizers())
