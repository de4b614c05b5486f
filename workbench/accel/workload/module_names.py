"""How a module of the user's model is named wherever a profile shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


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
