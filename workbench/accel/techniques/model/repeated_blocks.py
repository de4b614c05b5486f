"""The blocks that a model repeats: layers of a transformer, blocks of a ResNet. Compiled once, they serve all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def repeated_blocks(model: torch.nn.Module) -> dict[str, Hashable]:
    """The outermost blocks that stand in a ModuleList, ModuleDict or Sequential and come at least twice alike.

    >>> repeated_blocks(resnet18()).keys()
    dict_keys(['layer1.0', 'layer1.1', 'layer2.0', …])

    Qualified name → kind: blocks of one kind have the same structure and shapes, so that one compiled code is enough for
    them. Blocks of a class that is repeated alike are all in it, also those that differ (the first of a stage).
    """
    found: dict[str, torch.nn.Module] = {}
    _collect(model, "", found)
    kinds = {name: _kind(block) for name, block in found.items()}
    counts = Counter(kinds.values())
    repeated = {type(found[name]) for name, kind in kinds.items() if counts[kind] > 1}
    return {name: kind for name, kind in kinds.items() if type(found[name]) in repeated}


def _collect(parent: torch.nn.Module, prefix: str, found: dict[str, torch.nn.Module]) -> None:
    import torch

    is_container = isinstance(parent, (torch.nn.ModuleList, torch.nn.ModuleDict, torch.nn.Sequential))
    children = list(parent.named_children())
    classes = Counter(type(child) for _, child in children)
    for name, child in children:
        is_block = any(True for _ in child.children()) and not isinstance(
            child, (torch.nn.ModuleList, torch.nn.ModuleDict)
        )
        if is_container and is_block and classes[type(child)] > 1:
            found[prefix + name] = child
        else:
            _collect(child, f"{prefix}{name}.", found)


def _kind(block: torch.nn.Module) -> Hashable:
    """What two blocks have in common that can share compiled code: modules, their settings, shapes and dtypes."""
    modules = tuple((name, type(module), module.extra_repr()) for name, module in block.named_modules())
    tensors = (*block.named_parameters(), *block.named_buffers())
    return modules, tuple((name, tuple(t.shape), t.dtype, t.requires_grad) for name, t in tensors)
