"""How a module of the user's model is named wherever a profile shows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from accel.workload.namespace_reads import attribute_of, is_a

if TYPE_CHECKING:
    from torch import nn


def named_parts(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Like `module.named_modules()`, but never runs a user's override of it.

    >>> [path for path, _ in named_parts(nn.Sequential(nn.ReLU(), nn.ReLU()))]
    ['', '0', '1']
    """
    seen, waiting = set[int](), [("", module)]
    while waiting:
        path, part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield path, part
        parts = [(name, each) for name, each in held_by(part, "_modules") if each is not None]
        waiting += [(f"{path}.{name}" if path else name, each) for name, each in reversed(parts)]


def parameters_in(module: nn.Module) -> Iterator[nn.Parameter]:
    """Like `module.parameters()`, but never runs a user's override of it."""
    for _, part in named_parts(module):
        yield from (each for _, each in held_by(part, "_parameters") if each is not None)


def held_by(module: nn.Module, attribute: str) -> list[tuple[str, Any]]:
    """The items of a module's `_modules` or `_parameters`; none if something else stands there.

    >>> held_by(nn.Sequential(nn.ReLU()), "_modules")
    [('0', ReLU())]
    """
    held: Any = attribute_of(module, attribute)
    if is_a(held, dict):
        return [*dict.items(held)]
    is_script = type(held).__module__.startswith("torch.jit")  # TorchScript has mappings of its own there
    return [*held.items()] if is_script else []


def is_training(module: nn.Module) -> bool:
    """Whether the module is in training mode, read without the user's code; TorchScript stores the mode elsewhere."""
    mode = attribute_of(module, "training")
    if mode is None:
        with suppress(Exception):  # a class of the user's may raise
            mode = module.training
    return mode is not False


def module_name(path: str, module: nn.Module) -> str:
    """The qualified name; with the class where its last part is only a number, and the class alone of the outermost.

    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    >>> [module_name(path, module) for path, module in model.named_modules()]
    ['(Sequential)', '0 (Flatten)', '1 (Linear)']
    """
    kind = f"({type(module).__name__})"
    if not path:
        return kind
    return f"{path} {kind}" if path.rpartition(".")[2].isdigit() else path


def module_path(name: str) -> str:
    """The qualified name that `module_name` was given; of the outermost module, its class.

    >>> module_path("layers.1 (Linear)"), module_path("head.fc"), module_path("(Net)")
    ('layers.1', 'head.fc', '(Net)')
    """
    path, separator, _ = name.rpartition(" (")
    return path if separator and name.endswith(")") else name
