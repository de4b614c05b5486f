"""Marks come and go with the cell: nothing stays patched, other threads are left alone, ranges reach the profiler."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from capturing import notebook
from torch import nn
from torch.optim import lr_scheduler, optimizer
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from accel.errors import AccelError
from accel.workload import PhaseMarks

STEP = """
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""

PATCHED = [
    (nn.Module, "__call__"), (nn.Module, "zero_grad"), (nn.Module, "__init__"), (torch.optim.Optimizer, "zero_grad"),
    (torch.optim.Optimizer, "__init__"), (torch.autograd, "_engine_run_backward"), (DataLoader, "__iter__"),
    (DataLoader, "__init__"), (_BaseDataLoaderIter, "__next__"), (torch.Tensor, "to"), (torch.Tensor, "cuda"),
    (torch.amp.GradScaler, "scale"), (torch.amp.GradScaler, "unscale_"), (torch.amp.GradScaler, "step"),
    (torch.amp.GradScaler, "update"), (torch.amp.GradScaler, "__init__"), (lr_scheduler.LRScheduler, "step"),
    (lr_scheduler.LRScheduler, "__init__"), (lr_scheduler.ReduceLROnPlateau, "step"),
    (lr_scheduler.SequentialLR, "step"), (lr_scheduler.ChainedScheduler, "step"),
    (torch.autocast, "__enter__"), (torch.autocast, "__exit__"),
]  # fmt: skip


def patched_now() -> list[Any]:
    own = [vars(owner).get(name, "inherited") for owner, name in PATCHED]
    return [*own, dict(optimizer._global_optimizer_pre_hooks), dict(optimizer._global_optimizer_post_hooks)]


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_everything_patched_is_the_same_object_again_afterwards(error: type[BaseException] | None) -> None:
    before = patched_now()
    marks = PhaseMarks()
    try:
        with marks:
            during = patched_now()
            exec(STEP, notebook())
            if error is not None:
                raise error
    except (ValueError, KeyboardInterrupt):
        pass
    after = patched_now()
    assert all(now is not old for now, old in zip(during, before, strict=True))
    assert all(now is old for now, old in zip(after[:-2], before[:-2], strict=True))
    assert after[-2:] == before[-2:]
    assert "to" not in vars(torch.Tensor)


def test_a_second_profile_inside_the_first_is_refused_and_changes_nothing() -> None:
    with PhaseMarks() as outer:
        during = patched_now()
        with pytest.raises(AccelError, match="another cell is being profiled"), PhaseMarks():
            pass
        assert all(now is old for now, old in zip(patched_now()[:-2], during[:-2], strict=True))
        exec(STEP, notebook())
    assert outer.boundaries == 6


def test_a_patch_the_cell_makes_itself_survives_the_profile() -> None:
    original = nn.Module.zero_grad
    with PhaseMarks() as marks:
        ours = nn.Module.zero_grad

        def counted(self: nn.Module, set_to_none: bool = True) -> None:
            ours(self, set_to_none)

        nn.Module.zero_grad = counted  # type: ignore[method-assign]
    try:
        assert nn.Module.zero_grad is counted
        nn.Linear(2, 2).zero_grad()
        assert not marks.marks
    finally:
        nn.Module.zero_grad = original  # type: ignore[method-assign]


def test_marks_are_flat_balanced_and_in_order() -> None:
    with PhaseMarks() as marks:
        exec(STEP, notebook())
    times = [mark.time_ns for mark in marks.marks]
    assert times == sorted(times)
    opened: list[tuple[str, int]] = []
    for mark in marks.marks:
        if mark.begins:
            opened.append((mark.phase, mark.key))
        else:
            assert opened.pop() == (mark.phase, mark.key)
    assert not opened


def test_work_in_another_thread_is_not_marked() -> None:
    namespace = notebook()
    with PhaseMarks() as marks:
        thread = threading.Thread(target=exec, args=(STEP, namespace))
        thread.start()
        thread.join()
    assert marks.marks == []
    assert marks.boundaries == 0
    assert marks.seen == []


def test_boundaries_count_the_first_optimizer_and_backward_while_there_is_none() -> None:
    namespace = notebook("second = torch.optim.SGD(model.parameters(), lr=0.1)")
    seen: list[int] = []
    with PhaseMarks() as marks:
        exec("for i in range(3): criterion(model(X), Y).backward()", namespace)
        assert marks.boundaries == 3
        exec("optimizer.step(); second.step(); second.step(); optimizer.step()", namespace)
        assert marks.boundaries == 2
        marks.on_idle = seen.append
        exec("model(X); criterion(model(X), Y).backward()", namespace)
    assert seen == [2, 2, 2, 2]
    assert marks.first_optimizer is namespace["optimizer"]


def test_what_on_idle_raises_ends_the_cell_with_no_phase_open() -> None:
    class Enough(BaseException):
        pass

    def enough(boundaries: int) -> None:
        if boundaries == 2:
            raise Enough

    marks = PhaseMarks()
    marks.on_idle = enough
    with pytest.raises(Enough), marks:
        exec(STEP, notebook())
    assert marks.boundaries == 2
    assert not marks.open


def test_an_optimizer_that_raises_once_leaves_the_next_steps_marked_rightly() -> None:
    namespace = notebook(
        """
        class Moody(torch.optim.SGD):
            def step(self, closure=None):
                self.calls = getattr(self, "calls", 0) + 1
                if self.calls == 2:
                    raise ValueError("moody")
                return super().step(closure)
        optimizer = Moody(model.parameters(), lr=0.1)
        """
    )
    with PhaseMarks() as marks:
        exec(
            STEP.replace("optimizer.step()", "\n    try: optimizer.step()\n    except ValueError: pass"),
            namespace,
        )
    assert marks.boundaries == 5
    assert sum(mark.begins and mark.phase == "optimizer" for mark in marks.marks) == 6


MODULES = ("(Sequential)", "0 (Linear)", "1 (ReLU)", "2 (Linear)", "(CrossEntropyLoss)")


@pytest.mark.parametrize("ranges", ["off", "phases", "modules"])
def test_ranges_in_a_trace(ranges: Any) -> None:
    namespace = notebook()
    with PhaseMarks(ranges) as marks, torch.profiler.profile() as profiler:
        exec(STEP, namespace)
    names = [event.name() for event in profiler.profiler.kineto_results.events()]
    phases = {name for name in names if name.startswith("accel::")}
    modules = {name for name in names if name.startswith("accel.module::")}
    wanted = {
        "accel::" + phase for phase in ("data", "forward", "loss", "zero_grad", "backward", "optimizer")
    }
    assert phases == (set() if ranges == "off" else wanted)
    assert names.count("accel.step") == (0 if ranges == "off" else 6)
    nested = {"accel.module::" + name for name in MODULES}
    assert modules == (nested if ranges == "modules" else set())
    assert all(note.profiled for note in marks.boundary_notes)


@pytest.mark.parametrize("form", ["model.compile()", "torch.compile(model)", "torch.compile of a step"])
def test_watching_a_compiled_model_never_makes_dynamo_compile_again(form: str) -> None:
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    namespace = notebook()
    cell = STEP
    if form == "model.compile()":
        namespace["model"].compile(backend="eager")
    elif form == "torch.compile(model)":
        namespace["model"] = torch.compile(namespace["model"], backend="eager")
    else:
        exec("@torch.compile(backend='eager')\ndef loss_of(x, y): return criterion(model(x), y)", namespace)
        cell = STEP.replace("criterion(model(x), y)", "loss_of(x, y)")
    for _ in range(3):
        exec(cell, namespace)
        with PhaseMarks() as marks:
            exec(cell, namespace)
        assert marks.boundaries == 6
    assert counters["stats"]["unique_graphs"] == 1


def test_a_model_compiled_while_watched_is_not_compiled_again_later() -> None:
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    namespace = notebook()
    with PhaseMarks() as marks:
        exec("model = torch.compile(model, backend='eager')" + STEP, namespace)
    assert [note.compiled for note in marks.boundary_notes] == [True] + [False] * 5
    exec(STEP, namespace)
    with PhaseMarks():
        exec(STEP, namespace)
    assert counters["stats"]["unique_graphs"] == 1
