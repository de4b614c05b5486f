"""What one more layer would cost: it is put into a copy of the model that has no weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from accel.errors import AccelError, UnknownName
from accel.opgraph.fitting_layers import fit_while_running
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
