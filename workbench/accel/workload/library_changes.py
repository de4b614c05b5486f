"""Library attributes that cells set, such as `datasets.MNIST = Own`: other processes and exported programs must set them too."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any

INPUTS = "_ih"  # IPython's list of what was run, as Python
LibraryChange = tuple[Any, str, Any]  # module or class, attribute, value
_MISSING = object()
# Attributes that cells set in these packages stay in the notebook's process.
_OF_A_NOTEBOOK = {"sys", "IPython", "ipykernel", "matplotlib", "accel"}
_MAGICS = {"run_cell_magic", "run_line_magic"}
_made: list[LibraryChange] = []  # what `make_changes` set last, with the values before


@functools.lru_cache(4096)
def paths_set(code: str) -> tuple[tuple[str, ...], ...]:
    """The dotted names that code sets, by assignment or `setattr`; empty if it is not Python.

    >>> paths_set("datasets.MNIST = Own")
    (('datasets', 'MNIST'),)
    """
    try:
        tree = ast.parse(code) if "." in code or "setattr" in code else ast.Module([], [])
    except (SyntaxError, ValueError):
        return ()
    return tuple(path for node in ast.walk(tree) for path in _paths_set(node) if len(path) > 1)


def library_changes(namespace: Mapping[str, Any]) -> list[LibraryChange]:
    """(owner, attribute, current value) for each attribute that cells set in a module, or in a class that no cell defined.

    >>> library_changes(get_ipython().user_ns)
    [(<module 'torchvision.datasets'>, 'MNIST', <class '__main__.Own'>)]
    """
    found = {}
    for text in map(str, namespace.get(INPUTS) or ()):
        for *path, name in paths_set(text):
            owner = owner_at(path, namespace)
            if is_of_library(owner) and (value := _held(owner, name)) is not _MISSING:
                found[id(owner), name] = (owner, name, value)
    return list(found.values())


def owner_at(path: Sequence[str], namespace: Mapping[str, Any]) -> Any:
    """What a dotted name leads to; None if a part of it is missing, or is neither a module nor a class.

    >>> owner_at(("torch", "nn"), {"torch": torch})
    <module 'torch.nn'>
    """
    owner = namespace.get(path[0])
    for attribute in path[1:]:
        owner = vars(owner).get(attribute) if isinstance(owner, (ModuleType, type)) else None
    return owner


def make_changes(changes: Iterable[LibraryChange]) -> None:
    """Set these attributes in this process, after undoing those that the last call set.

    >>> make_changes(library_changes(namespace))
    """
    while _made:
        owner, name, before = _made.pop()
        with suppress(AttributeError):  # the cell that ran here deleted the attribute
            delattr(owner, name) if before is _MISSING else setattr(owner, name, before)
    for owner, name, value in changes:
        before = _held(owner, name)
        if before is not value:
            _made.append((owner, name, before))
            setattr(owner, name, value)


def is_of_library(owner: Any) -> bool:
    """Whether `owner` is a module, or a class that no cell defined; False for those of the packages in `_OF_A_NOTEBOOK`."""
    if not isinstance(owner, (ModuleType, type)):
        return False
    module = owner.__module__ if isinstance(owner, type) else owner.__name__
    return module != "__main__" and module.partition(".")[0] not in _OF_A_NOTEBOOK


def _held(owner: Any, name: str) -> Any:
    """The owner's own attribute; modules of a custom class, such as torch's settings, store it elsewhere."""
    if isinstance(owner, ModuleType) and type(owner) is not ModuleType:
        return getattr(owner, name, _MISSING)
    return vars(owner).get(name, _MISSING)


def _paths_set(node: ast.AST) -> Iterator[tuple[str, ...]]:
    match node:
        case ast.Attribute(ctx=ast.Store()):
            yield tuple(_dotted(node))
        case ast.Call(ast.Name("setattr"), [owner, ast.Constant(str(name)), _]):
            yield (*_dotted(owner), name)
        case ast.Call(ast.Attribute(attr=magic), [*_, ast.Constant(str(inner))]) if magic in _MAGICS:
            yield from paths_set(inner)  # as of a cell under %%capture


def _dotted(node: ast.AST) -> Iterator[str]:
    """The names of `a.b.c`; empty for any other expression."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        yield from (node.id, *reversed(names))
