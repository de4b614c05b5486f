"""Make the layers that follow take the width that now comes in; what cannot be made to fit is left to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def fit_while_running(model: torch.nn.Module, changes: list[str]) -> list[Any]:
    """Hooks that widen or narrow a layer when it is called with another width; `changes` gets a sentence for each.

    >>> hooks = fit_while_running(double, changes)

    For a copy of fake tensors: a fitted layer has new weights. Returns the hooks, to be removed after a run.
    """
    return [
        module.register_forward_pre_hook(partial(_fit, name, changes))
        for name, module in model.named_modules()
        if name
    ]


def _fit(name: str, changes: list[str], module: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
    from torch import Tensor, nn
    from torch.nn.modules.batchnorm import _NormBase
    from torch.nn.modules.conv import _ConvNd

    if not inputs or not isinstance(inputs[0], Tensor) or inputs[0].dim() < 2:
        return
    at = -1 if isinstance(module, (nn.Linear, nn.LayerNorm)) else 1
    given = int(inputs[0].shape[at])
    before = None
    if isinstance(module, nn.Linear) and type(module) is nn.Linear:
        before, module.in_features = module.in_features, given
        _resize(module, "weight", 1, given)
    elif isinstance(module, _ConvNd) and module.groups == 1 and inputs[0].dim() == module.weight.dim():
        before, module.in_channels = module.in_channels, given
        _resize(module, "weight", 0 if module.transposed else 1, given)
    elif isinstance(module, _NormBase):
        before, module.num_features = module.num_features, given
        for part in ("weight", "bias", "running_mean", "running_var"):
            _resize(module, part, 0, given)
    elif isinstance(module, nn.LayerNorm) and len(module.normalized_shape) == 1:
        before, module.normalized_shape = module.normalized_shape[0], (given,)
        for part in ("weight", "bias"):
            _resize(module, part, 0, given)
    if before is not None and before != given:
        changes.append(f"{name} takes {given} in place of {before}: it would start with new weights.")


def _resize(module: torch.nn.Module, name: str, dimension: int, size: int) -> None:
    """Another tensor of that size in the place of a parameter or buffer, if there is one and it does not fit."""
    from torch import nn

    tensor = getattr(module, name)
    if tensor is None or tensor.shape[dimension] == size:
        return
    shape = list(tensor.shape)
    shape[dimension] = size
    resized = tensor.new_empty(shape)
    is_parameter = isinstance(tensor, nn.Parameter)
    setattr(module, name, nn.Parameter(resized, tensor.requires_grad) if is_parameter else resized)
