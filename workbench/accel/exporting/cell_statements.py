"""The statements of cells that ran: which of the notebook's names each binds, reads at once, and reads when it is called."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from accel.workload.cell_names import names_bound, names_read
from accel.workload.library_changes import paths_set
from accel.workload.namespace_reads import globals_read, globals_written, nested_codes

_TRAINS = {"backward", "step"}
# Calls that change how all else computes, by the beginning of their names.
_SETTINGS = ("manual_seed", "seed", "set_", "use_deterministic")
_CHANGING = {"next", "setattr", "delattr", "exec", "eval", "map", "filter", "iter"}
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)
# Methods of torch's modules and tensors, and of dicts, that change nothing. Those of the second kind give out parts, which may be
# changed under another name where a variable holds them.
_TELLING = {"numel", "nelement", "element_size", "size", "dim", "item", "tolist", "extra_repr", "keys"}
_GIVING_PARTS = {
    "parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules", "children", "named_children",
    "state_dict", "get_submodule", "get_parameter", "items", "values",
}  # fmt: skip
_COUNTING = {
    "sum",
    "len",
    "print",
    "any",
    "all",
    "str",
    "repr",
}  # builtins that keep nothing of what they are given


@dataclass(frozen=True)
class Statement:
    """One statement at the top level of a cell.

    `later` holds what its functions read when they are called, and `perhaps` what it may bind: under a condition, or by calling
    a function that has `global`. `changes` are the roots of what it sets or calls, `sets_parts_of` are the dotted
    names of modules and classes whose attributes it sets; `trains` and `sets` say what its code is for.
    """

    cell: int
    binds: frozenset[str]
    perhaps: frozenset[str]
    now: frozenset[str]
    later: frozenset[str]
    changes: frozenset[str]
    sets_parts_of: frozenset[tuple[str, ...]]
    trains: bool
    sets: bool
    is_definition: bool


def statements_of(cells: Sequence[str]) -> list[Statement]:
    """Of all cells, in the order in which they ran; nothing of one that is no Python.

    >>> [one.binds for one in statements_of(["x = 1", "for y in z: pass"])]
    [frozenset({'x'}), frozenset()]
    """
    known = _Known()
    return [known.statement(number, node) for number, cell in enumerate(cells) for node in parsed(cell).body]


def parsed(code: str) -> ast.Module:
    """Its tree; an empty one where it is no Python."""
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


class _Known:
    """What functions that were defined so far do: which globals they write, whether they train, whether they set something."""

    def __init__(self) -> None:
        self.writes: dict[str, frozenset[str]] = {}
        self.trains: set[str] = set()
        self.sets: set[str] = set()
        self.parts: dict[
            str, frozenset[tuple[str, ...]]
        ] = {}  # the modules and classes whose attributes they set

    def statement(self, cell: int, node: ast.stmt) -> Statement:
        code = ast.unparse(node)
        compiled = compile(
            ast.Module([node], []), "<names>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
        )
        every = frozenset(globals_read(compiled))
        now = frozenset(names_read(code, _Everything()))
        surely, written = names_bound(code)
        perhaps = set(written) - set(surely)
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            perhaps |= _public(node.module)
        words = set(_words(node))
        trains = bool(_TRAINS & words) or bool(self.trains & every)
        sets = any(word.startswith(_SETTINGS) for word in words) or bool(self.sets & every)
        is_definition = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        of_functions = frozenset(_written_inside(compiled)).union(
            *(self.writes.get(name, ()) for name in every)
        )
        parts = {path[:-1] for path in paths_set(code) if path[0] in every}
        parts = parts.union(*(self.parts.get(name, ()) for name in every))
        if is_definition:
            self.parts.update(dict.fromkeys(surely, frozenset(parts)))
            parts = {(name,) for name in _added_to(node)}
            for names, does in ((self.trains, trains), (self.sets, sets)):
                names.difference_update(surely)
                names.update(surely if does else ())
            self.writes.update(dict.fromkeys(surely, of_functions))
        else:
            perhaps |= of_functions
        later = (
            every - now if is_definition else every - now - set(written)
        )  # names that it assigns before it reads them need not be given
        return Statement(
            cell, frozenset(surely), frozenset(perhaps), now, later, frozenset(_changed(node)),
            frozenset(parts), trains, sets, is_definition,
        )  # fmt: skip


def _added_to(node: ast.stmt) -> Iterator[str]:
    """Classes that a decorator may add this definition to: `Net` of `@add_to(Net)`, or of `def f(self: Net)` under `@patch`."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call):
            for each in [*decorator.args, *decorator.keywords]:
                yield from _names(each)
    match node:
        case ast.FunctionDef(
            decorator_list=[_, *_], args=ast.arguments(args=[ast.arg("self", ast.Name(name)), *_])
        ):
            yield name


class _Everything(Mapping[str, Any]):
    """A namespace that holds every name, with nothing behind it."""

    def __getitem__(self, name: str) -> None:
        return None

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _written_inside(code: CodeType) -> Iterator[str]:
    for inner in nested_codes(code):
        yield from globals_written(inner)
        yield from _written_inside(inner)


def _public(module: str | None) -> set[str]:
    """What `from module import *` gives: the notebook has imported it."""
    found = vars(sys.modules[module]) if module in sys.modules else {}
    return set(found.get("__all__", (name for name in found if not name.startswith("_"))))


def _words(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, (ast.Attribute, ast.Name)):
            yield each.attr if isinstance(each, ast.Attribute) else each.id


def _changed(node: ast.stmt) -> Iterator[str]:
    """Names of objects that a statement may change: what it sets parts of, and what it calls or gives to a call.

    Builtins such as print(model), and methods such as model.parameters(), change nothing. A definition does nothing yet.
    """
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)):
        return
    held = _parts_held(node)
    for each in ast.walk(node):
        if isinstance(each, (ast.Attribute, ast.Subscript)) and not isinstance(each.ctx, ast.Load):
            yield from _names(node if isinstance(node, (ast.For, ast.With)) else each)
        elif isinstance(each, ast.AugAssign):
            yield from _names(each.target)
        elif isinstance(each, ast.Call) and (id(each) in held or not _is_harmless(each)):
            yield from _names(node if isinstance(node, (ast.For, ast.With)) else each)


def _parts_held(node: ast.stmt) -> set[int]:
    """The calls, by id, that give out parts of an object for a variable to hold."""
    assigned = (each.value for each in ast.walk(node) if isinstance(each, _ASSIGNMENTS) and each.value)
    waiting: list[ast.AST] = list(assigned)
    found = set[int]()
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.Call):
            if isinstance(each.func, ast.Name) and each.func.id in _COUNTING:
                continue
            if isinstance(each.func, ast.Attribute) and each.func.attr in _GIVING_PARTS:
                found.add(id(each))
        waiting += ast.iter_child_nodes(each)
    return found


def _is_harmless(call: ast.Call) -> bool:
    import builtins

    known = {*dir(builtins), "display"} - _CHANGING
    if isinstance(call.func, ast.Attribute):
        return call.func.attr in _TELLING | _GIVING_PARTS
    return isinstance(call.func, ast.Name) and call.func.id in known


def _names(node: ast.AST) -> Iterator[str]:
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name))
