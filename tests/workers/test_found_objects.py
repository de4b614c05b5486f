"""A worker runs its cell again and again: what a run built is let go in the next one."""

from __future__ import annotations

import gc
import types
import weakref

import torch
from torch import nn

from accel.plans.plan import Plan
from accel.workers.found_objects import FoundObjects, in_use
from accel.workload.discovery import Discovery
from accel.workload.replica import Replica, merged


class Net(nn.Linear):
    pass


class Lookahead(torch.optim.Optimizer):
    def __init__(self, inner):
        super().__init__(inner.param_groups, {})
        self.inner = inner

    def step(self):
        self.inner.step()


def run(found, noted, nets):
    found.run_begins()
    models = [Net(2, 2) for _ in range(nets)]
    for model in models + models:
        model(torch.ones(1, 2))
    noted.append([weakref.ref(model) for model in models])
    return ["_compiled_call_impl" in vars(model) for model in models]


def alive(noted):
    gc.collect()
    return [sum(reference() is not None for reference in of_run) for of_run in noted]


def test_models_of_earlier_runs_die_and_those_of_the_last_have_the_plan():
    noted, presented = [], [Replica()]
    found = FoundObjects(Plan.parse("autocast"), presented)
    with found.taken_back(), Discovery(found.take, known=[]):
        assert [run(found, noted, nets=2) for _ in range(3)] == [[True, True]] * 3
        assert alive(noted) == [0, 0, 2]
        assert len(merged(presented).models) == 2


def test_what_is_built_once_keeps_the_plan_over_all_runs_and_gets_rid_of_it_at_the_end():
    presented, once = [Replica()], nn.Conv1d(2, 2, 1)
    found = FoundObjects(Plan.parse("autocast"), presented)
    with found.taken_back(), Discovery(found.take, known=[]):
        for _ in range(3):
            run(found, [], nets=1)
            once(torch.ones(1, 2, 1))
            assert "_compiled_call_impl" in vars(once)
    assert "_compiled_call_impl" not in vars(once)


def test_an_optimizer_that_fit_builds_anew_replaces_the_one_of_its_name_and_a_wrapper_does_not():
    model = Net(2, 2)
    old, other = torch.optim.SGD(model.parameters(), 0.1), torch.optim.SGD(model.parameters(), 0.2)
    trainer = types.SimpleNamespace(optimizer=old)
    namespace = {"trainer": trainer, "other": other}
    plan = Plan.parse("fused_optimizer")
    presented = [Replica(optimizers={"trainer.optimizer": old, "other": other})]
    found = FoundObjects(plan, presented)
    with plan.apply(presented[0]), found.taken_back(), Discovery(found.take, known=[old, other]):
        found.run_begins()
        trainer.optimizer = torch.optim.SGD(model.parameters(), 0.1)
        model(torch.ones(1, 2)).sum().backward()
        trainer.optimizer.step()
        assert list(merged(in_use(presented, namespace)).optimizers) == ["other", "SGD"]
        namespace["other"] = Lookahead(other)
        namespace["other"].step()
        assert "other" in merged(in_use(presented, namespace)).optimizers
