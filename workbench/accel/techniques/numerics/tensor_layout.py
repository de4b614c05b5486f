"""The memory layout of a model's tensors: changed and put back together with gradients and optimizer state.

Weights, gradients and state belong together: torch's fused optimizers walk them side by side in memory, without a look at their
strides. With mixed layouts they pair the wrong numbers, silently (torch 2.15, CPU: SGD with momentum diverges).

Whether a forward takes a .view() that channels-last does not allow is asked of a copy without memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from accel.errors import Reason
from accel.techniques.steps.live_optimizers import live_optimizers, state_of
from accel.workload.model_copy import as_fake, copied, out_of_sight, own_line, unwrapped

if TYPE_CHECKING:
    import torch

    from accel.workload.call_inputs import CallInputs

Strides = tuple[int, ...]


def to_channels_last(model: torch.nn.Module) -> None:
    """Lay out a model's four-dimensional tensors, their gradients and optimizer state channels-last, in place."""
    import torch

    for tensor in (*_own_tensors(model), *_companions(model)):
        tensor.data = tensor.data.to(memory_format=torch.channels_last)


def is_channels_last(model: torch.nn.Module) -> bool:
    """Whether all convolution weights are laid out so, and some in a way that tells it from the usual layout."""
    import torch

    weights = [p for p in model.parameters() if p.dim() == 4]
    are_so = all(weight.is_contiguous(memory_format=torch.channels_last) for weight in weights)
    return are_so and any(not weight.is_contiguous() for weight in weights)


def why_not_moved(name: str, model: torch.nn.Module) -> list[Reason]:
    """Reasons why the tensors of a model that the user calls `name` cannot get memory of their own; usually none."""
    tensors = _own_tensors(model)
    if any(t.untyped_storage().nbytes() > t.numel() * t.element_size() for t in tensors):
        where = "parts of a larger tensor"
    elif any(t.device.type == "cpu" and t.untyped_storage().is_shared() for t in tensors):
        where = "in shared memory"
    else:
        return []
    return [
        Reason(
            f"Weights of {name} are {where}, and laid out anew they would no longer be",
            "Leave channels_last off for it, or build it with weights of their own.",
        )
    ]


@contextmanager
def kept_layout(model: torch.nn.Module) -> Iterator[None]:
    """On leaving, give the tensors their strides of before back; values stay as they are by then, bit for bit.

    A gradient or state that came into being meanwhile gets the strides of its parameter: what it would have had.
    """
    from torch.utils.weak import WeakTensorKeyDictionary

    before = WeakTensorKeyDictionary()
    for tensor in (*_own_tensors(model), *_companions(model)):
        before[tensor] = tensor.stride()
    try:
        yield
    finally:
        for tensor in _own_tensors(model):
            if tensor in before:
                _restride(tensor, before[tensor])
        for tensor, parameter in _companions(model).items():
            _restride(tensor, before[tensor] if tensor in before else parameter.stride())


def same_layout(optimizer: torch.optim.Optimizer) -> None:
    """Give the state of an optimizer the layout of its parameters, as its fused kernels take for granted."""
    for parameter, state in optimizer.state.items():
        for value in state.values():
            if _has_layout(value) and value.shape == parameter.shape and _has_layout(parameter):
                _restride(value, parameter.stride())


def same_layout_code(optimizer: str) -> list[str]:
    """The same as plain lines, for the optimizer that the user calls so."""
    return [
        f"for _parameter, _state in {optimizer}.state.items():  # fused kernels walk weights and state side by side",
        "    for _name, _value in _state.items():",
        "        if torch.is_tensor(_value) and _value.dim() == 4 and _value.shape == _parameter.shape:",
        "            _state[_name] = torch.empty_like(_parameter, dtype=_value.dtype).copy_(_value)",
    ]


def _restride(tensor: torch.Tensor, strides: Strides) -> None:
    import torch

    if tensor.stride() != strides:
        laid_out = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
        tensor.data = laid_out.copy_(tensor.data)


def _own_tensors(model: torch.nn.Module) -> list[torch.Tensor]:
    return [tensor for tensor in (*model.parameters(), *model.buffers()) if _has_layout(tensor)]


def _companions(model: torch.nn.Module) -> dict[torch.Tensor, torch.Tensor]:
    """Gradients and optimizer state in the shape of a four-dimensional parameter, each with that parameter."""
    parameters = [p for p in model.parameters() if _has_layout(p)]
    found: dict[torch.Tensor, torch.Tensor] = {p.grad: p for p in parameters if _has_layout(p.grad)}  # type: ignore[misc]
    for state in map(state_of, live_optimizers() if parameters else []):
        for parameter in parameters:
            for value in state.get(parameter, {}).values():
                if _has_layout(value) and value.shape == parameter.shape:
                    found[value] = parameter
    return found


def _has_layout(value: object) -> bool:
    """Whether it is a dense four-dimensional tensor; expanded ones have no layout of their own to change."""
    import torch

    if not isinstance(value, torch.Tensor) or value.dim() != 4 or value.layout != torch.strided:
        return False
    return bool(torch.ops.aten.is_non_overlapping_and_dense(value))


_asked: weakref.WeakKeyDictionary[torch.nn.Module, tuple[object, str]] = weakref.WeakKeyDictionary()


def view_refusal(model: torch.nn.Module, inputs: CallInputs | None) -> str:
    """What a call of the model with these inputs would raise in this layout only, and where; empty when nothing.

    >>> view_refusal(model, role.inputs)
    'a .view() raises in this layout (line 9 of cell.py, in forward)'

    It is also empty for a call that cannot be made again: unknown inputs, or Python code that depends on their values.
    """
    if inputs is None or inputs.strange:
        return ""
    asked = (inputs, [getattr(part.forward, "__func__", part.forward) for part in model.modules()])
    known = _asked.get(model)
    if known is None or known[0] != asked:
        laid_out = _raised_by(model, inputs, is_channels_last=True)
        answer = laid_out if laid_out and not _raised_by(model, inputs, is_channels_last=False) else ""
        known = _asked[model] = (asked, answer)
    return known[1]


def _raised_by(model: torch.nn.Module, inputs: CallInputs, *, is_channels_last: bool) -> str:
    """What torch says about a view in a call on tensors of this layout, with the line; empty for anything else."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def laid_out(tensor: torch.Tensor) -> torch.Tensor:
        has_layout = is_channels_last and tensor.dim() == 4
        return tensor.to(memory_format=torch.channels_last) if has_layout else tensor

    try:
        with mode, out_of_sight():
            double: Any = copied(unwrapped(model), lambda tensor: laid_out(as_fake(tensor, mode)))
            args, kwargs = inputs.filled(lambda shape: laid_out(shape.empty()))
            double.train()(*args, **kwargs)
    except (RuntimeError, ValueError) as error:
        return f"a .view() raises in this layout{own_line(error)}" if "view" in str(error) else ""
    except Exception:  # the user's forward may raise anything: then a trial will tell
        return ""
    return ""
