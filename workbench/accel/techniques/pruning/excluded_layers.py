"""Layers that the user wants to stay whole, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.errors import AccelError

if TYPE_CHECKING:
    import torch


def named_layer(model: torch.nn.Module, name: str) -> torch.nn.Module:
    """The layer of this name, or the part of the model that holds several.

    >>> named_layer(cnn, "conv1")
    Conv2d(3, 32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))

    Raises AccelError with the names that there are.
    """
    try:
        return model.get_submodule(name)
    except AttributeError:
        layers = ", ".join(
            path for path, module in model.named_modules() if path and not [*module.children()]
        )
        do = f"Write names from this list: {layers[:300]}."
        raise AccelError(f'prune(exclude="{name}")', because="the model has no such layer", do=do) from None


def layers_in(model: torch.nn.Module, names: tuple[str, ...]) -> list[str]:
    """The full names of all layers that these name.

    >>> layers_in(resnet, ("layer1.0",))
    ['layer1.0.conv1', 'layer1.0.bn1', 'layer1.0.relu', 'layer1.0.conv2', 'layer1.0.bn2']
    """
    parts = {name: named_layer(model, name) for name in names}
    return [
        f"{name}.{path}" if path else name
        for name, part in parts.items()
        for path, layer in part.named_modules()
        if not [*layer.children()]
    ]
