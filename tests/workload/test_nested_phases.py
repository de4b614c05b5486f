"""What an optimizer's closure computes, and what a backward pass computes again, are phases of their own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from capturing import capture, notebook

from accel.workload import PhaseMarks
from accel.workload.phase_record import Mark

WITH_CLOSURE = """
import functools
for i, (x, y) in enumerate(loader):
    def closure(weight=1.0):
        optimizer.zero_grad()
        loss = weight * criterion(model(x), y)
        loss.backward()
        return loss
    {}
"""
CALLED_TWICE = """
class Twice(torch.optim.SGD):
    def step(self, closure):
        with torch.enable_grad():
            closure()
        return super().step(closure)
optimizer = Twice(model.parameters(), lr=0.01)
"""
AN_OBJECT = """
class Called:
    def __init__(self, function):
        self.function = function
    def __call__(self):
        return self.function()
"""
DEEP = """
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.relu, self.second = nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)
    def forward(self, x):
        {}
deep = Deep()
optimizer = torch.optim.SGD(deep.parameters(), lr=0.01)
"""
STEP = """
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion({}, y)
    loss.backward()
    optimizer.step()
"""
OWN_BACKWARD = """
side = nn.Linear(3, 3)
class Through(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        side(gradient)
        return gradient
def hooked(x):
    x.register_hook(lambda gradient: side(gradient).detach())
    return x
"""


def outer(marks: Sequence[Mark], phase: str) -> set[str]:
    """The phases that those of this name began directly in; "" for none."""
    opened, found = [""], set()
    for mark in marks:
        if mark.begins:
            if mark.phase == phase:
                found.add(opened[-1])
            opened.append(mark.phase)
        else:
            opened.pop()
    return found


@pytest.mark.parametrize(
    ("step", "setup", "calls"),
    [
        ("optimizer.step(closure)", "", 6),
        ("optimizer.step(closure=closure)", "", 6),
        ("optimizer.step(functools.partial(closure, weight=2.0))", "", 6),
        ("optimizer.step(Called(closure))", AN_OBJECT, 6),
        ("optimizer.step(closure)", CALLED_TWICE, 12),
    ],
    ids=["by position", "by keyword", "a partial", "an object", "called twice"],
)
def test_what_a_closure_computes_lies_in_it_and_not_in_the_update(step: str, setup: str, calls: int) -> None:
    workload, recording = capture(WITH_CLOSURE.format(step), notebook(setup))
    counts = recording.steps.counts
    assert (counts["closure"], counts["optimizer"], workload.steps) == (calls, 6, 6)
    assert outer(recording.marks, "closure") == {"optimizer"}
    for phase in ("zero_grad", "forward", "loss", "backward"):
        assert outer(recording.marks, phase) == {"closure"}


def test_a_closure_that_raises_ends_with_its_error() -> None:
    step = "try: optimizer.step(closure)\n    except ValueError: pass"
    cell = WITH_CLOSURE.format(step).replace("return loss", "return loss if i != 2 else float('no number')")
    workload, recording = capture(cell, notebook())
    assert (recording.steps.counts["closure"], workload.steps) == (6, 5)
    assert outer(recording.marks, "closure") == {"optimizer"}
    assert outer(recording.marks, "backward") == {"closure"}


@pytest.mark.parametrize(
    ("forward", "count"),
    [
        ("return checkpoint(self.second, self.relu(self.first(x)), use_reentrant=False)", 6),
        ("return checkpoint(self.second, self.relu(self.first(x)), use_reentrant=True)", 6),
        ("return checkpoint(lambda x: self.second(self.first(x).relu()), x, use_reentrant=False)", 12),
        ("return self.second(checkpoint(self.relu, self.first(x), use_reentrant=False))", 6),
        ("return checkpoint_sequential(nn.Sequential(*self.children()), 2, x, use_reentrant=False)", 6),
    ],
    ids=["a layer", "reentrant", "a function", "a layer without weights", "in segments"],
)
def test_what_checkpointing_computes_again_lies_in_the_backward_pass(forward: str, count: int) -> None:
    workload, recording = capture(STEP.format("deep(x)"), notebook(DEEP.format(forward)))
    counts = recording.steps.counts
    assert (counts["recompute"], counts["forward"], counts["backward"]) == (count, 6, 6)
    assert outer(recording.marks, "recompute") == {"backward"}
    assert [role.name for role in workload.roles if role.kind == "models"] == ["deep"]


def test_a_model_that_the_cell_itself_checkpoints_is_computed_again() -> None:
    cell = "from torch.utils.checkpoint import checkpoint" + STEP.format(
        "checkpoint(model, x, use_reentrant=False)"
    )
    counts = capture(cell, notebook())[1].steps.counts
    assert (counts["recompute"], counts["forward"]) == (6, 6)


@pytest.mark.parametrize("output", ["Through.apply(model(x))", "hooked(model(x))"])
def test_what_a_backward_pass_computes_of_its_own_is_not_computed_again(output: str) -> None:
    counts = capture(STEP.format(output), notebook(OWN_BACKWARD))[1].steps.counts
    assert "recompute" not in counts
    assert (counts["forward"], counts["backward"]) == (6, 6)


def test_both_reach_a_trace_as_ranges() -> None:
    cell = WITH_CLOSURE.replace("model(x)", "checkpoint(model, x, use_reentrant=False)")
    namespace = notebook("from torch.utils.checkpoint import checkpoint")
    with PhaseMarks("phases"), torch.profiler.profile() as profiler:
        exec(cell.format("optimizer.step(closure)"), namespace)
    names = [event.name() for event in profiler.profiler.kineto_results.events()]
    assert (names.count("accel::closure"), names.count("accel::recompute")) == (6, 6)
