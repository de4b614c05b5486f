"""What one more layer would cost: it is put into a copy of the model that has no weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from accel.errors import AccelError, UnknownName
from accel.opgraph.layer_text import layer_of
from accel.opgraph.origin import Origin, fake_inputs, mode_of
from accel.workload.model_copy import out_of_sight, reason_of, without_weights

if TYPE_CHECKING:
    import torch


ADDED = "added"
_Read = TypeVar("_Read")


def with_layer(
    origin: Origin | None, layer: str | torch.nn.Module, *, after: str, read: Callable[[Origin], _Read]
) -> tuple[_Read, tuple[str, ...]]:
    """Put the layer after the module called `after`, in a copy, and `read` that; with what was made to fit.

    Raises AccelError when there is no such module, when the forward never calls it, or when the widths cannot be reconciled
    (a residual connection round it, for example).
    """
    asked = f"What if {words_of_layer(layer)} came after {after!r}"
    if origin is None:
        raise AccelError(
            asked, because="this graph has no model to work on", do="Ask a graph that accel.graph gave."
        )
    double = without_weights(origin.double, mode_of(origin))
    place = _module_named(double, after)
    changes: list[str] = []
    longer = Origin(double, origin.inputs, origin.model)
    try:
        _insert(longer, place, layer, changes, asked)
        extended = read(longer)
    except AccelError:
        raise
    except Exception as error:  # torch and the user's forward raise what they like where shapes do not meet
        raise AccelError(
            asked,
            because=f"the model does not run with it: {reason_of(error)}",
            do="A layer inside a residual connection has to keep the width; elsewhere check the layer's own numbers.",
        ) from error
    return extended, tuple(changes)


def _insert(
    origin: Origin, place: torch.nn.Module, layer: str | torch.nn.Module, changes: list[str], asked: str
) -> None:
    """Run the copy once with fake tensors: only then the width is known that comes out of `place`."""
    import torch
    from torch import nn

    mode, added = mode_of(origin), list[Any]()
    args, kwargs = fake_inputs(origin, mode)

    def then(module: Any, inputs: Any, output: Any) -> Any:
        result = output[0] if isinstance(output, tuple) else output
        if not added:
            with torch.device(result.device):
                added.append(_made(layer, result, mode))
        changed = added[0](result)
        return (changed, *output[1:]) if isinstance(output, tuple) else changed

    hooks = [*fit_while_running(origin.double, changes), place.register_forward_hook(then)]
    with out_of_sight(), mode:
        origin.double(*args, **kwargs)
    for hook in hooks[:-1]:
        hook.remove()
    if not added:
        raise AccelError(
            asked, because="the model's forward never calls that module, or only its parameters",
            do="Name a module that has a row in the graph.",
        )  # fmt: skip
    if isinstance(place, nn.Sequential):  # it calls whatever it holds
        hooks[-1].remove()
    place.add_module(ADDED, added[0])


def _made(layer: str | torch.nn.Module, output: torch.Tensor, mode: Any) -> torch.nn.Module:
    return layer_of(layer, output).eval() if isinstance(layer, str) else without_weights(layer, mode)


def _module_named(model: torch.nn.Module, name: str) -> torch.nn.Module:
    named: dict[str, torch.nn.Module] = dict(model.named_modules())
    if name not in named or not name:
        raise UnknownName("module", name, [known for known in named if known])
    return named[name]


def words_of_layer(layer: str | torch.nn.Module) -> str:
    """What a layer is called in an answer."""
    return layer if isinstance(layer, str) else type(layer).__name__


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
