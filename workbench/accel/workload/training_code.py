"""The code that a training runs, the cell's own and that of the notebook's functions, and how it is changed while it runs.

A function of the notebook gets other code in place (`function.__code__`), so that whoever holds it runs that. A cell is
compiled anew each time it runs: whoever runs one passes its tree through `as_changed`. Functions that a cell defines anew
come with it.
"""

from __future__ import annotations
import __future__

import ast
import copy
import linecache
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from accel.workload.namespace_reads import functions_behind, nested_codes
from accel.workload.read_backs import ReadBack

Change = Callable[[ast.Module], ast.Module]
CELL = "the cell"
_FUTURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
_in_force: list[Change] = []


@dataclass(frozen=True, eq=False)
class TrainingCode:
    """The cell (`function` is None), or a function that it calls; `reads` are its lines that read a number back."""

    name: str
    filename: str
    source: str
    reads: tuple[ReadBack, ...]
    namespace: Mapping[str, Any] = field(default_factory=dict, repr=False)
    function: FunctionType | None = None

    @property
    def tree(self) -> ast.Module:
        """The cell, or the whole cell that defines the function, as it was written."""
        return ast.parse(self.source, self.filename)

    def names_looked_up(self, tree: ast.Module) -> frozenset[str]:
        """Names that functions behind those of the tree look up in the notebook: they may read them while the cell runs."""
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        functions = _functions(self.namespace, names)
        return frozenset(name for function in functions for name in _names(function.__code__))

    @contextmanager
    def changed_by(self, change: Change) -> Iterator[None]:
        """Run it changed, for as long as the context lasts; afterwards the function has its own code again."""
        function: Any = self.function
        before = None if function is None else function.__code__
        _in_force.append(change)
        try:
            if before is not None:
                function.__code__ = _changed_code(before, self.tree, change)
            yield
        finally:
            _in_force.remove(change)
            if before is not None:
                function.__code__ = before


def as_changed(tree: ast.Module) -> ast.Module:
    """The tree of a cell as it is to run now: with the changes that are in force, line numbers kept.

    >>> exec(compile(as_changed(ast.parse(source)), filename, "exec"), namespace)
    """
    for change in _in_force:
        tree = change(copy.deepcopy(tree))
    return tree


def training_codes(
    namespace: Mapping[str, Any], names: Iterable[str], filename: str, source: str, reads: Iterable[ReadBack]
) -> dict[str, TrainingCode]:
    """The cell and those functions behind the names it reads in which a number was read back, by what they are called.

    A function whose source is gone, or that closes over variables of another one, is left out.
    """
    by_file: dict[str, list[ReadBack]] = {}
    for read in reads:
        by_file.setdefault(read.filename, []).append(read)
    if not by_file:
        return {}
    functions = _functions(namespace, names)
    found = {}
    if own := by_file.pop(filename, []):
        found[CELL] = TrainingCode(CELL, filename, source, tuple(own), namespace)
    for function in functions:
        code = function.__code__
        inside = tuple(read for read in by_file.get(code.co_filename, []) if read.line in _lines(code))
        text = "".join(linecache.getlines(code.co_filename)) if inside else ""
        if text and not code.co_freevars and "<locals>" not in function.__qualname__:
            name = function.__qualname__
            found[name] = TrainingCode(name, code.co_filename, text, inside, namespace, function)
    return found


def _functions(namespace: Mapping[str, Any], names: Iterable[str]) -> list[FunctionType]:
    found = {
        id(function): function
        for name in names if name in namespace
        for function in functions_behind(namespace[name], namespace)
    }  # fmt: skip
    return list(found.values())


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in nested_codes(code):
        yield from _names(inner)


def _lines(code: CodeType) -> set[int]:
    own = {line for _, _, line in code.co_lines() if line is not None}
    return own.union(*map(_lines, nested_codes(code)))


def _changed_code(code: CodeType, tree: ast.Module, change: Change) -> CodeType:
    """The function's code as the changed source of its cell has it; its own where that is not found there."""
    changed = compile(
        change(tree), code.co_filename, "exec", flags=code.co_flags & _FUTURES, dont_inherit=True
    )
    waiting = [changed]
    while waiting:
        found = waiting.pop()
        if (found.co_name, found.co_firstlineno) == (code.co_name, code.co_firstlineno):
            return found if found.co_freevars == code.co_freevars else code
        waiting += nested_codes(found)
    return code
