"""Models whose parameters cannot be taken out or replaced: what rules out entries that change a model's layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.errors import Reason
from accel.techniques.model.model_call import why_not_wrapped

if TYPE_CHECKING:
    import torch


def why_fixed(name: str, model: torch.nn.Module) -> Reason | None:
    """Why a model's layers cannot be changed, and what to do; None when they can.

    >>> why_fixed("model", DistributedDataParallel(cnn)).because
    'model is a DistributedDataParallel, which has noted its parameters and their sizes'
    """
    from torch.nn.parallel import DistributedDataParallel
    from torch.nn.parameter import UninitializedParameter

    if hidden := why_not_wrapped(name, model):
        return hidden[0]
    if any(isinstance(module, DistributedDataParallel) for module in model.modules()):
        return Reason(
            f"{name} is a DistributedDataParallel, which has noted its parameters and their sizes",
            "Change the module before it is wrapped.",
        )
    if any(isinstance(parameter, UninitializedParameter) for parameter in model.parameters()):
        return Reason(f"{name} has lazy layers without weights", "Call it once before.")
    return None
