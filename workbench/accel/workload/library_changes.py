"""What cells set in libraries, as `datasets.MNIST = Own`: who trains as the notebook does, elsewhere, needs that too."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

INPUTS = "_ih"  # IPython's list of what was run, as Python
_MISSING = object()
_STREAMS = {"stdin", "stdout", "stderr"}  # of sys: each process has its own
_made: list[tuple[Any, str, Any]] = []  # in this process, with what was there before


@functools.lru_cache(4096)
def paths_set(code: str) -> tuple[tuple[str, ...], ...]:
    """The dotted names that code sets, by assignment or `setattr`; nothing of what is no Python.

    >>> paths_set("datasets.MNIST = Own")
    (('datasets', 'MNIST'),)
    """
    try:
        tree = ast.parse(code) if "." in code or "setattr" in code else ast.Module([], [])
    except (SyntaxError, ValueError):
        return ()
    return tuple(path for node in ast.walk(tree) if len(path := _path_set(node)) > 1)


def library_changes(namespace: Mapping[str, Any]) -> list[tuple[Any, str, Any]]:
    """(module or class of a library, attribute, value) of all that the notebook's cells set there, with what is there now.

    >>> library_changes(get_ipython().user_ns)
    [(<module 'torchvision.datasets'>, 'MNIST', <class '__main__.Own'>)]
    """
    found = {}
    for text in map(str, namespace.get(INPUTS) or ()):
        for *path, name in paths_set(text):
            owner = owner_at(path, namespace)
            if is_of_library(owner) and not (owner is sys and name in _STREAMS):
                value = vars(owner).get(name, _MISSING)
                if value is not _MISSING:
                    found[id(owner), name] = (owner, name, value)
    return list(found.values())


def owner_at(path: Sequence[str], namespace: Mapping[str, Any]) -> Any:
    """What a dotted name leads to through modules and classes; None where another object is on the way.

    >>> owner_at(("torch", "nn"), {"torch": torch})
    <module 'torch.nn'>
    """
    owner = namespace.get(path[0])
    for attribute in path[1:]:
        owner = vars(owner).get(attribute) if isinstance(owner, (ModuleType, type)) else None
    return owner


def make_changes(changes: Iterable[tuple[Any, str, Any]]) -> None:
    """Make them here, in place of those of the notebook that were made here before.

    >>> make_changes(library_changes(namespace))
    """
    while _made:
        owner, name, before = _made.pop()
        delattr(owner, name) if before is _MISSING else setattr(owner, name, before)
    for owner, name, value in changes:
        before = vars(owner).get(name, _MISSING)
        if before is not value:
            _made.append((owner, name, before))
            setattr(owner, name, value)


def is_of_library(owner: Any) -> bool:
    """Whether it is a module, or a class that is no notebook's own."""
    return isinstance(owner, ModuleType) or (isinstance(owner, type) and owner.__module__ != "__main__")


def _path_set(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return tuple(_dotted(node))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
        match node.args:
            case [owner, ast.Constant(str(name)), _]:
                return (*_dotted(owner), name)
    return ()


def _dotted(node: ast.AST) -> Iterator[str]:
    """The names of `a.b.c`; nothing of what is another expression."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        yield from (node.id, *reversed(names))
