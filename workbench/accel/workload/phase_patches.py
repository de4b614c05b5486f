"""The patches that report a cell's phases to `PhaseRecord`; each is taken back, to the same object, when the cell ends.

Every wrapper first asks `torch.compiler.is_compiling()`; the wrapper of module calls asks `is_dynamo_compiling()`, which is
faster. Dynamo folds both to True and traces the original as if there were no wrapper. Without this question dynamo would
trace the marks, recompile until its limit and fall back to eager.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from types import FrameType
from typing import TYPE_CHECKING, Any

from accel.hooks.training_loop import (
    after_step,
    before_step,
    is_inside_another_step,
    wrap_backward,
    wrap_batch,
    wrap_iterator,
    wrap_module_call,
)
from accel.workload.callers_line import at_callers_line
from accel.workload.loop_record import Fetch, noting_indices, samples_drawn
from accel.workload.namespace_reads import is_a
from accel.workload.replica import Kind

if TYPE_CHECKING:
    from accel.workload.phase_record import PhaseRecord

Function = Callable[..., Any]


def install_patches(marks: PhaseRecord) -> None:
    """Patch everything that begins a phase."""
    import torch
    from torch import nn, optim
    from torch.amp import GradScaler
    from torch.optim import lr_scheduler
    from torch.utils.data import DataLoader
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    from accel.workload.module_calls import watch_module_calls

    def at_line(wrap: Callable[[PhaseRecord, Function], Function]) -> Callable[[Function], Function]:
        return lambda original: wrap(marks, at_callers_line(original))

    def patch(owner: Any, name: str, wrap: Callable[[PhaseRecord, Function], Function]) -> None:
        marks.patches.wrap(owner, name, at_line(wrap))

    # These run often, or only torch calls them; if they warn, the warning comes from a line further in.
    wrap_module_call(marks.patches, functools.partial(watch_module_calls, marks))
    wrap_backward(marks.patches, functools.partial(_backward, marks))
    marks.patches.wrap(optim.Optimizer, "zero_grad", functools.partial(_clear_gradients, marks))
    loader_of: dict[int, int] = {}
    wrap_iterator(marks.patches, at_line(functools.partial(_loader_iter, loader_of)))
    wrap_batch(marks.patches, at_line(functools.partial(_loader_next, loader_of)))
    patch(_BaseDataLoaderIter, "_next_index", lambda _, original: noting_indices(original))
    entered: dict[int, int] = {}  # id of an autocast that is on → nodes that autograd had recorded before
    patch(torch.autocast, "__enter__", functools.partial(_enter_autocast, entered))
    patch(torch.autocast, "__exit__", functools.partial(_exit_autocast, entered))
    patch(nn.Module, "zero_grad", functools.partial(_in_phase, "zero_grad", None))
    for name in ("scale", "unscale_", "step", "update"):
        patch(GradScaler, name, functools.partial(_in_phase, "scaler", "scalers"))
    for name in ("to", "cuda"):
        patch(torch.Tensor, name, _copy)
    for scheduler in _with_own_step(lr_scheduler.LRScheduler):
        patch(scheduler, "step", _scheduler_step)
    for built in (nn.Module, optim.Optimizer, DataLoader, GradScaler, lr_scheduler.LRScheduler):
        patch(built, "__init__", _built)
    _hook_optimizers(marks)


def _in_phase(phase: str, kind: Kind | None, marks: PhaseRecord, original: Function) -> Function:
    """A method whose whole time is one phase."""
    from torch.compiler import is_compiling

    @functools.wraps(original)
    def marked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or get_ident() != marks.thread or phase in marks.open:
            return original(self, *args, **kwargs)
        if kind is not None:
            marks.note(kind, self)
        marks.begin(phase, id(self))
        try:
            return original(self, *args, **kwargs)
        finally:
            marks.end(phase)

    return marked


def _clear_gradients(marks: PhaseRecord, original: Function) -> Function:
    """`Optimizer.zero_grad`, which drops gradients unless it is asked for zeros."""
    from torch.compiler import is_compiling

    timed = _in_phase("zero_grad", None, marks, original)

    @functools.wraps(original)
    def zero_grad(self: Any, set_to_none: bool = True) -> Any:
        if not set_to_none and not is_compiling() and get_ident() == marks.thread:
            marks.clears_to_zeros = True
        result = timed(self, set_to_none=set_to_none)
        if not is_compiling() and get_ident() == marks.thread:
            marks.gradients.cleared(self)
        return result

    return zero_grad


def _enter_autocast(entered: dict[int, int], marks: PhaseRecord, original: Function) -> Function:
    """Any `with torch.autocast(…)` or decorator begins."""
    import torch
    from torch._C._autograd import _get_sequence_nr as nodes_recorded
    from torch.compiler import is_compiling

    @functools.wraps(original)
    def enter(autocast: Any) -> Any:
        is_training = (
            autocast._enabled and torch.is_grad_enabled()
        )  # casting records nodes under no_grad, too
        if not is_compiling() and is_training and get_ident() == marks.thread:
            entered[id(autocast)] = nodes_recorded()
        return original(autocast)

    return enter


def _exit_autocast(entered: dict[int, int], marks: PhaseRecord, original: Function) -> Function:
    """Note the device and format of an autocast under which autograd recorded an operation."""
    from torch._C._autograd import _get_sequence_nr as nodes_recorded

    @functools.wraps(original)
    def leave(autocast: Any, *error: Any) -> Any:
        before = entered.pop(id(autocast), None)
        if before is not None and nodes_recorded() != before:
            marks.autocasts.add((autocast.device, str(autocast.fast_dtype).removeprefix("torch.")))
        return original(autocast, *error)

    return leave


def _backward(marks: PhaseRecord, original: Function) -> Function:
    from torch.compiler import is_compiling

    from accel.workload.phase_record import BackwardPass
    from accel.workload.run_conditions import read_conditions

    @functools.wraps(original)
    def run_backward(*args: Any, **kwargs: Any) -> Any:
        if is_compiling() or get_ident() != marks.thread or "backward" in marks.open:
            return original(*args, **kwargs)
        if marks.conditions is None:
            marks.conditions = read_conditions()
        begun_ns, adds = marks.begin("backward", 0), bool(kwargs.get("accumulate_grad", True))
        marks.gradients.before_backward()
        try:
            result = original(*args, **kwargs)
        finally:
            marks.end("backward")
            marks.gradients.after_backward()
        if "optimizer" not in marks.open:  # a closure goes over the same batch again
            marks.passes.append(BackwardPass(begun_ns, _place(sys._getframe(1)), adds))
        marks.backward_ended()
        return result

    return run_backward


def _loader_iter(loader_of: dict[int, int], marks: PhaseRecord, original: Function) -> Function:
    """Making a loader's iterator: starts its worker processes, so it is time spent waiting for data."""

    @functools.wraps(original)
    def make_iterator(self: Any) -> Any:
        if get_ident() != marks.thread:
            return original(self)
        marks.note("loaders", self)
        marks.note_pass(self)
        nested = "data" in marks.open
        if not nested:
            marks.begin("data", -id(self))  # a key of its own: this is not the fetch of a batch
        try:
            iterator = original(self)
        finally:
            if not nested:
                marks.end("data")
        loader_of[id(iterator)] = id(self)
        marks.loops.begins(id(self), iterator)
        return iterator

    return make_iterator


def _loader_next(loader_of: dict[int, int], marks: PhaseRecord, original: Function) -> Function:
    """The main process waits here for the next batch, or makes it."""

    @functools.wraps(original)
    def next_batch(self: Any) -> Any:
        if get_ident() != marks.thread:
            marks.fetches_in_threads |= marks.thread != -1
            return original(self)
        if "data" in marks.open:
            marks.events += (
                1  # a loop probe is marking this fetch already; tell it that its loop is worth marking
            )
            return drawn(self)[0]
        key = loader_of.get(id(self), id(self))
        begun_ns = marks.begin("data", key)
        try:
            batch, samples = drawn(self)
        except StopIteration:
            marks.loops.ends(marks.loops.run_of(self, key), begun_ns)
            raise
        finally:
            marks.end("data")
        marks.loops.fetches.append(Fetch(begun_ns, key, marks.loops.run_of(self, key), samples, key))
        return batch

    def drawn(iterator: Any) -> tuple[Any, int]:
        batch = original(iterator)
        samples = samples_drawn(iterator, batch)
        marks.loops.drawn = max(marks.loops.drawn, (samples, loader_of.get(id(iterator), id(iterator))))
        return batch, samples

    return next_batch


def _copy(marks: PhaseRecord, original: Function) -> Function:
    """`Tensor.to` and `.cuda`, when the user's code calls them: torch does so itself, as in `clip_grad_norm_`."""
    from torch.compiler import is_compiling

    @functools.wraps(original)
    def copy_tensor(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or marks.open or get_ident() != marks.thread or _is_torch(sys._getframe(1)):
            return original(self, *args, **kwargs)
        marks.begin("copy", 0)
        try:
            return original(self, *args, **kwargs)
        finally:
            marks.end("copy")

    return copy_tensor


def _is_torch(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] == "torch"


def _place(frame: FrameType | None) -> tuple[str, int]:
    """The line of whoever asked torch for it."""
    while frame is not None and _is_torch(frame):
        frame = frame.f_back
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _scheduler_step(marks: PhaseRecord, original: Function) -> Function:
    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if get_ident() == marks.thread:
            marks.note("schedulers", self)
        return original(self, *args, **kwargs)

    return step


def _built(marks: PhaseRecord, original: Function) -> Function:
    """Constructors: what is made while the cell runs does not exist before it, and cannot be copied into a worker."""
    from torch.compiler import is_compiling

    @functools.wraps(original)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        if not is_compiling() and get_ident() == marks.thread:
            marks.note_built(self)
        original(self, *args, **kwargs)

    return construct


def _with_own_step(scheduler: type) -> list[type]:
    own: list[type] = [scheduler] if "step" in vars(scheduler) else []
    children: list[type] = scheduler.__subclasses__()
    return own + [found for child in children for found in _with_own_step(child)]


def _closure(marks: PhaseRecord, original: Function) -> Function:
    """Marks the closure, in which the optimizer computes the loss: its time is not the optimizer's update."""

    def closure(*args: Any, **kwargs: Any) -> Any:
        if get_ident() != marks.thread or "closure" in marks.open:
            return original(*args, **kwargs)
        marks.begin("closure", 0)
        try:
            return original(*args, **kwargs)
        finally:
            marks.end("closure")

    with suppress(Exception):  # the closure may be an object of the user's
        functools.update_wrapper(closure, original)
    return closure


def _is_closure(given: Any) -> bool:
    """True for a closure; False for a model, which some optimizers take: it is callable, but they read its attributes."""
    from torch import nn

    return callable(given) and not is_a(given, nn.Module)


def _hook_optimizers(marks: PhaseRecord) -> None:
    """Every optimizer's step, the outermost only."""
    from torch.compiler import is_compiling

    under_way: list[int] = []  # ids of the optimizers whose step is running, outermost first

    def before(optimizer: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        if is_compiling() or get_ident() != marks.home_thread:
            return None
        if under_way and not is_inside_another_step(sys._getframe(1)):
            under_way.clear()  # the last step raised, and the cell caught that
            marks.end("optimizer")
        under_way.append(id(optimizer))
        if len(under_way) == 1 and marks.thread == marks.home_thread:
            marks.note("optimizers", optimizer)
            if marks.first_optimizer is None or marks.first_optimizer is optimizer:
                marks.gradients.before_update(optimizer)
            marks.begin("optimizer", id(optimizer))
            timed = functools.partial(_closure, marks)
            if len(args) > 1 and _is_closure(args[1]):  # args[0] is the optimizer
                return (args[0], timed(args[1]), *args[2:]), kwargs
            if _is_closure(kwargs.get("closure")):
                return args, {**kwargs, "closure": timed(kwargs["closure"])}
        return None

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_compiling() or get_ident() != marks.home_thread or not under_way:
            return
        under_way.pop()
        if not under_way:
            marks.end("optimizer")
            marks.optimizer_stepped(optimizer)
            if optimizer is marks.first_optimizer:
                marks.gradients.after_update(optimizer)

    before_step(marks.patches, before)
    after_step(marks.patches, after)
