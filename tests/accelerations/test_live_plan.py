"""What is kept follows the objects of each run of a cell, and lets go of those of the run before."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from contextlib import contextmanager

import pytest
import torch
from small_training import training
from torch import nn

from accel.accelerations.autocast import Autocast
from accel.accelerations.channels_last import ChannelsLast
from accel.plans.live_plan import LivePlan
from accel.plans.plan import Plan
from accel.workload.capture import CellCapture
from accel.workload.replica import merged

SETUP = """
import torch
from torch import nn

class Net(nn.Linear):
    def __init__(self):
        super().__init__(3, 2)

def train(nets=1):
    models = [Net() for _ in range(nets)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    for _ in range(2):
        for model, optimizer in zip(models, optimizers):
            optimizer.zero_grad()
            model(torch.ones(4, 3)).square().mean().backward()
            optimizer.step()
    noted.append([weakref.ref(thing) for thing in (*models, *optimizers)])
    seen.append([model.weight.is_contiguous() and "_compiled_call_impl" in vars(model) for model in models])
"""
KEPT = Plan((Autocast(),))


def kept_over(cell, runs, plan=KEPT):
    """The cell profiled, the plan kept, the cell run again; the namespace and what is live."""
    namespace = {"weakref": weakref, "noted": [], "seen": []}
    exec(SETUP, namespace)
    capture = CellCapture(cell, cell, namespace)
    with capture:
        exec(compile(cell, capture.filename, "exec"), namespace)
    live = LivePlan(capture.finish()[0])
    live.keep(plan)
    for _ in range(runs):
        exec(cell, namespace)
    gc.collect()
    return namespace, live


def alive(references):
    return sum(reference() is not None for reference in references)


def test_objects_that_a_function_built_die_when_the_cell_has_run_again():
    namespace, live = kept_over("train()", runs=4)
    assert namespace["seen"] == [[False], *[[True]] * 4], "each run has the plan"
    assert [alive(run) for run in namespace["noted"]] == [0, 0, 0, 0, 2]
    live.undo()
    gc.collect()
    assert [alive(run) for run in namespace["noted"]] == [0] * 5


def test_two_of_one_class_in_one_run_both_keep_the_plan():
    namespace, live = kept_over("train(nets=2)", runs=3)
    assert namespace["seen"][1:] == [[True, True]] * 3
    assert [alive(run) for run in namespace["noted"]] == [0, 0, 0, 4]
    assert len(merged(live.presented()).models) == 2
    live.undo()


def test_the_proof_is_read_from_the_objects_of_the_last_run():
    _, live = kept_over("train()", runs=2)
    ((_, proof),) = live.plan.proofs(merged(live.presented()))
    assert proof.took_effect, proof.evidence
    live.undo()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_where_taking_one_thing_back_raises_everything_else_is_taken_back(error):
    @dataclasses.dataclass(frozen=True)
    class CannotBeTakenBack(ChannelsLast):
        @contextmanager
        def apply(self, replica):
            yield
            if replica.models:
                raise error

    made = training()
    live = LivePlan(made.workload())
    live.keep(Plan.parse("fused_optimizer+matmul_precision").with_(CannotBeTakenBack()))
    assert made.optimizer.param_groups[0]["fused"]
    with pytest.raises(error):
        live.undo()
    assert not live.plan
    assert live.presented()[1:] == []
    assert not made.optimizer.param_groups[0]["fused"]
    assert torch.get_float32_matmul_precision() == "highest"
    assert not hasattr(nn.Module.__call__, "__wrapped__"), "nothing looks for new objects any more"
