"""How a module of the user's model is named wherever a profile shows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from accel.workload.namespace_reads import attributes_of

if TYPE_CHECKING:
    from torch import nn


def named_parts(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """As `module.named_modules()`, but without running what a class of the user's may have in its place.

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
        held = attributes_of(part).get("_modules")
        parts = (
            [(name, each) for name, each in dict.items(held) if each is not None]
            if isinstance(held, dict)
            else []
        )
        waiting += [(f"{path}.{name}" if path else name, each) for name, each in reversed(parts)]


def parameters_in(module: nn.Module) -> Iterator[nn.Parameter]:
    """As `module.parameters()`, in the same way."""
    for _, part in named_parts(module):
        own = attributes_of(part).get("_parameters")
        yield from (each for each in (dict.values(own) if isinstance(own, dict) else ()) if each is not None)


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
