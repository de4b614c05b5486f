"""Which module calls are a model's forward, which are a loss, and which nested module is running."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, get_ident
from types import FrameType
from typing import TYPE_CHECKING, Any

from accel.workload.call_inputs import CallInputs
from accel.workload.loop_record import MOST_SHAPES
from accel.workload.module_names import is_training, module_name, named_parts, parameters_in
from accel.workload.namespace_reads import is_a
from accel.workload.phase_record import ForwardCall

if TYPE_CHECKING:
    from accel.workload.phase_record import PhaseRecord

    Names = dict[int, str]  # id(module) -> qualified name below the outermost module called


PATCHES = f"{__package__}.phase_patches"
MODEL, LOSS, PLAIN = "model", "loss", "plain"  # plain: no parameters, such as a transform of a data set


def watch_module_calls(marks: PhaseRecord, original: Callable[..., Any]) -> Callable[..., Any]:
    """`nn.Module.__call__`: the outermost call is a phase; nested ones get a range when the profile asks."""
    from torch._C._autograd import _get_sequence_nr as nodes_recorded
    from torch.compiler import is_compiling, is_dynamo_compiling

    note_use, samples_of = use_noting(), sample_counting()
    kinds: dict[int, str] = {}
    names: dict[int, Names] = {}
    current: list[Names] = [{}]
    opened, again = marks.open, Lock()

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_dynamo_compiling():  # True only while dynamo traces this; it must not trace the lines below
            return original(self, *args, **kwargs)
        if (
            ("forward" in opened or "loss" in opened)
            and "backward" not in opened
            and marks.ranges != "modules"
        ):
            return original(self, *args, **kwargs)  # a layer of the model: most calls are such
        if is_compiling():  # non-strict export
            return original(self, *args, **kwargs)
        is_elsewhere, in_backward = get_ident() != marks.thread, "backward" in opened
        if is_elsewhere and not in_backward:
            return original(self, *args, **kwargs)
        key, is_again = id(self), "recompute" in opened
        if in_backward and not is_again and not _is_checkpointed(sys._getframe(1)):
            return original(self, *args, **kwargs)  # a custom backward's own
        if is_elsewhere:
            return _recompute_elsewhere(marks, again, original, self, args, kwargs)
        if "forward" in opened or "loss" in opened or is_again:
            if marks.ranges != "modules" or key not in current[0]:
                return original(self, *args, **kwargs)
            with _module_range(current[0][key]):
                return original(self, *args, **kwargs)
        kind = kinds.get(key)
        if kind is None:
            kind = kinds[key] = _first_sight(marks, self, args, kwargs)
        if kind is PLAIN:
            return _plain_call(marks, kinds, original, self, args, kwargs)
        phase = "loss" if kind is LOSS else _forward(marks)
        begun, nodes = marks.begin(phase, key), nodes_recorded()
        result = None
        try:
            if marks.ranges != "modules":
                result = original(self, *args, **kwargs)
                return result
            current[0] = names.get(key) or names.setdefault(key, _qualified_names(self))
            with _module_range(current[0][key]):
                result = original(self, *args, **kwargs)
                return result
        finally:
            ended = marks.end(phase)
            if phase == "forward":
                recorded, samples = nodes_recorded() - nodes, samples_of(self, args, kwargs)
                _note_call(marks, self, begun, ended, recorded, sys._getframe(1), samples)
                if recorded:
                    note_use(marks.used_calls, begun, result)

    return call


def _recompute_elsewhere(
    marks: PhaseRecord, again: Lock, original: Callable[..., Any], module: Any, args: Any, kwargs: Any
) -> Any:
    """On a GPU, autograd's threads recompute. Only one call at a time is marked, and no call inside it."""
    if "recompute" in marks.open or not again.acquire(blocking=False):
        return original(module, *args, **kwargs)
    try:
        marks.begin("recompute", id(module))
        return original(module, *args, **kwargs)
    finally:
        marks.end("recompute")
        again.release()


def _is_checkpointed(frame: FrameType | None) -> bool:
    """Whether activation checkpointing, torch's or a library's, is on the stack. On a GPU it runs in autograd's own thread."""
    while frame is not None:
        name, code = frame.f_globals.get("__name__"), frame.f_code
        if code.co_name == "run_backward" and name == PATCHES:  # what called the backward pass is above it
            return False
        if (isinstance(name, str) and "checkpoint" in name) or "Checkpoint" in getattr(
            code, "co_qualname", ""
        ):
            return True
        frame = frame.f_back
    return False


def _forward(marks: PhaseRecord) -> str:
    """The phase of a model's call: `recompute` inside a backward pass (checkpointing), else `forward`."""
    return "recompute" if "backward" in marks.open else "forward"


def _note_call(
    marks: PhaseRecord, model: Any, begun_ns: int, ended_ns: int, nodes: int, caller: FrameType, samples: int
) -> None:
    code = caller.f_code
    place = code.co_filename, caller.f_lineno, code.co_name
    marks.forward_calls.append(
        ForwardCall(begun_ns, ended_ns, nodes, is_training(model), *place, id(model), samples)
    )


def _first_sight(marks: PhaseRecord, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Sort a module when it is first called, and note its role."""
    from torch import nn

    if is_a(module, nn.modules.loss._Loss):
        marks.note("criteria", module)
        return LOSS
    if next(parameters_in(module), None) is None:
        return PLAIN
    if "backward" in marks.open:
        return MODEL  # a checkpointed block, computed again: part of a model noted before
    marks.note("models", module)
    marks.inputs[id(module)] = CallInputs.of_call(*args, **kwargs)
    return MODEL


def _plain_call(
    marks: PhaseRecord,
    kinds: dict[int, str],
    original: Callable[..., Any],
    module: Any,
    args: Any,
    kwargs: Any,
) -> Any:
    """A module without parameters: forward, unless it turns out to be a loss, or to be the data set's own transform."""
    if "data" in marks.open:
        return original(module, *args, **kwargs)
    phase = _forward(marks)
    marks.begin(phase, id(module))
    begun = len(marks.marks) - 1
    result = None
    try:
        result = original(module, *args, **kwargs)
        return result
    finally:
        marks.end(phase)
        if _is_loss(result, args):
            kinds[id(module)] = LOSS
            marks.note("criteria", module)
            for position in (begun, len(marks.marks) - 1):
                marks.marks[position] = marks.marks[position]._replace(phase="loss")


def _is_loss(result: Any, args: tuple[Any, ...]) -> bool:
    """A scalar with a gradient made from a model's output: a metric has no gradient, an activation is no scalar."""
    import torch

    return (
        is_a(result, torch.Tensor) and result.dim() == 0 and result.requires_grad
        and any(is_a(arg, torch.Tensor) and arg.grad_fn is not None for arg in args)
    )  # fmt: skip


def sample_counting() -> Callable[[Any, tuple[Any, ...], dict[str, Any]], int]:
    """A function like `samples_of_call` that remembers its results by model, tensor shape and whether the dtype is a float.

    >>> samples_of = sample_counting()
    >>> samples_of(model, (images,), {})
    64
    """
    from torch import Tensor

    known: dict[tuple[int, tuple[int, ...], bool], int] = {}

    def samples_of(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        with suppress(Exception):  # a nested tensor, or a mode of the user's that changes what tensors answer
            first = args[0] if args else None
            if type(first) is Tensor and first.dim():
                key = id(model), first.shape, first.is_floating_point()
                if key not in known and len(known) < MOST_SHAPES:
                    known[key] = samples_of_call(model, [*args, *kwargs.values()])
                if known.get(key):
                    return known[key]
        return samples_of_call(model, [*args, *kwargs.values()])

    return samples_of


def samples_of_call(model: Any, values: list[Any]) -> int:
    """Like `_samples_of_call`, but 0 if reading an argument's shape raises, as for a nested tensor."""
    try:
        return _samples_of_call(model, values)
    except Exception:  # a tensor subclass may raise
        return 0


def _samples_of_call(model: Any, values: list[Any]) -> int:
    """The first dimension of the first tensor that a model was given; 1 where that is one sample, without a batch round it.

    >>> samples_of_call(nn.Linear(4, 2), [torch.zeros(8, 4)]), samples_of_call(nn.Linear(4, 2), [torch.zeros(4)])
    (8, 1)
    """
    import torch

    given = next((each for each in values if is_a(each, torch.Tensor) and each.dim() > 0), None)
    if given is None:
        return 0
    weight = next((p for p in parameters_in(model) if p.dim() > 1), None)
    if weight is not None and given.is_floating_point() and given.dim() == max(1, weight.dim() - 1):
        features = weight.shape[-1] if weight.dim() == 2 else weight.shape[1]  # channels, of a convolution
        if given.shape[0] == features:
            return 1
    return int(given.shape[0])


def _module_range(name: str) -> Any:
    from torch._C._profiler import _RecordFunctionFast

    return _RecordFunctionFast(f"accel.module::{name}")


def _qualified_names(root: Any) -> Names:
    """Names below the outermost module, and of itself."""
    return {id(module): module_name(path, module) for path, module in named_parts(root)}


_MOST_OUTPUTS = 8


def use_noting() -> Callable[[set[int], int, Any], None]:
    """A function that puts `call` into `used` when a backward comes to what made the result.

    >>> note_use = use_noting()
    >>> note_use(marks.used_calls, begun_ns, model(x))

    A hook on the graph's nodes costs some microseconds; it changes no gradient and is gone with the graph.
    """
    from torch import Tensor
    from torch.utils._pytree import tree_leaves

    def note_use(used: set[int], call: int, result: Any) -> None:
        if _compiles_backward():
            return

        def note(gradients: Any) -> None:
            used.add(call)

        for leaf in (result,) if is_a(result, Tensor) else tree_leaves(result)[:_MOST_OUTPUTS]:
            node = leaf.grad_fn if is_a(leaf, Tensor) else None
            if node is not None:
                node.register_prehook(note)

    return note_use


def _compiles_backward() -> bool:
    """Compiled autograd would make the hook part of its graph, and compile anew for each."""
    compiled = sys.modules.get("torch._dynamo.compiled_autograd")
    return bool(getattr(compiled, "compiled_autograd_enabled", False))
