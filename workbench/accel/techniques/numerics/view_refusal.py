"""Whether a model's forward takes a .view() that the channels-last layout does not allow: asked of a copy without memory."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from accel.workload.model_copy import as_fake, copied, out_of_sight, own_line, unwrapped

if TYPE_CHECKING:
    import torch

    from accel.workload.call_inputs import CallInputs

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
