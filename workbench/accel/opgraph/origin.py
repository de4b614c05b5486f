"""What a graph is read from: the model's double without weights, its fake tensors, and what it is called with."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel.workload.call_inputs import CallInputs

if TYPE_CHECKING:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

Call = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Origin:
    """What a graph was read from: a copy of the model without weights, and the model itself while it lives."""

    double: torch.nn.Module
    inputs: CallInputs
    model: weakref.ref[torch.nn.Module]


def fake_inputs(origin: Origin, mode: FakeTensorMode) -> Call:
    """What the model is called with, without memory, on the device of its parameters."""
    with mode:
        return origin.inputs.filled(lambda shape: shape.empty(device_of(origin.double)))


def mode_of(origin: Origin) -> FakeTensorMode:
    """The mode that the copy's tensors were made in; a new one when it has none."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    tensors = [*origin.double.parameters(), *origin.double.buffers()]
    modes = [tensor.fake_mode for tensor in tensors if isinstance(tensor, FakeTensor)]
    return modes[0] if modes else FakeTensorMode(allow_non_fake_inputs=True)


def device_of(model: torch.nn.Module) -> str | None:
    """The one device that the parameters are on; None when there is not exactly one."""
    devices = {str(parameter.device) for parameter in model.parameters()}
    return devices.pop() if len(devices) == 1 else None
