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
# How the names of functions begin that change how all later code computes.
_SETTINGS = ("manual_seed", "seed", "set_", "use_deterministic", "enable_", "disable_", "add_safe_globals")
_CHANGING = {"next", "setattr", "delattr", "exec", "eval", "map", "filter", "iter"}
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# These bind variables to parts of objects. A change of such a variable may change any object that the statement names.
_AROUND = (
    ast.For, ast.AsyncFor, ast.With, ast.AsyncWith, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip
_PASSED_THROUGH = {"list", "tuple", "enumerate", "zip", "sorted", "set", "sum"}
# Methods of modules, tensors and dicts that change nothing. Those in `_GIVING_PARTS` return parts of the object; if a variable
# holds such a part, later code can change the object through that variable.
_TELLING = {
    "numel", "nelement", "element_size", "size", "dim", "item", "tolist", "extra_repr", "keys", "norm", "mean", "std", "var",
    "sum", "min", "max", "abs", "argmax", "argmin", "count_nonzero", "clone",
}  # fmt: skip
_GIVING_PARTS = {
    "parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules", "children", "named_children",
    "state_dict", "get_submodule", "get_parameter", "items", "values",
}  # fmt: skip
# Builtins whose result does not contain the objects passed to them.
_COUNTING = {"len", "print", "any", "all", "str", "repr"}


@dataclass(frozen=True)
class Statement:
    """One statement at the top level of a cell.

    `later` holds what its functions read when they are called, and `perhaps` what it may bind: under a condition, or by calling
    a function that has `global`. `changes` names the objects that it may change, `goes_through` those that it iterates over,
    `holds` those that the bound names may refer to, in whole or in part. `sets_parts_of` are the dotted names of modules and
    classes whose attributes it sets, `sets` the roots of calls such as `torch.manual_seed` ("" for a plain function), `modules`
    what it imports. `trains`: it calls `backward()` or `step()`, itself or by a function.
    """

    cell: int
    binds: frozenset[str]
    perhaps: frozenset[str]
    now: frozenset[str]
    later: frozenset[str]
    changes: frozenset[str]
    goes_through: frozenset[str]
    holds: frozenset[str]
    sets_parts_of: frozenset[tuple[str, ...]]
    sets: frozenset[str]
    modules: frozenset[str]
    trains: bool
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
    """What functions that were defined so far do: which globals they write and change, whether they train, what they set."""

    def __init__(self) -> None:
        self.writes: dict[str, frozenset[str]] = {}
        self.changes: dict[str, frozenset[str]] = {}
        self.trains: set[str] = set()
        self.sets: dict[str, frozenset[str]] = {}
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
        trains = any(word in _TRAINS for word, _ in _called(node)) or bool(self.trains & every)
        sets = frozenset(root for word, root in _called(node) if word.startswith(_SETTINGS))
        sets = sets.union(*(self.sets.get(name, ()) for name in every))
        is_definition = isinstance(node, _DEFINITIONS)
        changes = frozenset(_changed(node))
        by_functions = changes if is_definition else every  # a definition calls its decorators only
        changes = changes.union(*(self.changes.get(name, ()) for name in by_functions))
        of_functions = frozenset(_written_inside(compiled)).union(
            *(self.writes.get(name, ()) for name in every)
        )
        parts = {path[:-1] for path in paths_set(code) if path[0] in every}
        parts = parts.union(*(self.parts.get(name, ()) for name in every))
        if is_definition:
            self.parts.update(dict.fromkeys(surely, frozenset(parts)))
            parts = {(name,) for name in _added_to(node)}
            self.trains.difference_update(surely)
            self.trains.update(surely if trains else ())
            self.sets.update(dict.fromkeys(surely, sets))
            self.writes.update(dict.fromkeys(surely, of_functions))
            inside = frozenset(_changed_inside(node)) & every
            inside = inside.union(*(self.changes.get(name, ()) for name in every))
            self.changes.update(dict.fromkeys(surely, inside))
        else:
            perhaps |= of_functions
        later = (
            every - now if is_definition else every - now - set(written)
        )  # names that it assigns before it reads them need not be given
        return Statement(
            cell, frozenset(surely), frozenset(perhaps), now, later, changes, frozenset(_gone_through(node)),
            frozenset(_held(node)), frozenset(parts), sets, frozenset(_modules(node)), trains, is_definition,
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


def _called(node: ast.AST) -> Iterator[tuple[str, str]]:
    """(name, root) of each call: ("manual_seed", "torch"); the root of a plain function is ""."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name):
            yield each.func.id, ""
        elif isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
            yield each.func.attr, _root(each.func)


def _root(node: ast.AST) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _modules(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (each.name for each in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module


def _changed(node: ast.stmt) -> Iterator[str]:
    """Names of objects that a statement may change: what it sets parts of, and what it calls or gives to a call.

    Calls such as print(model) and model.parameters() do not count; calls of the builtins in `_CHANGING` do.
    A definition changes nothing until it is called, but its decorators may.
    """
    if isinstance(node, _DEFINITIONS):
        for decorator in node.decorator_list:
            yield from _names(decorator)
    elif not isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from _changed_by(node, None)


def _changed_by(node: ast.AST, around: ast.AST | None) -> Iterator[str]:
    """The same of any node; `around` is the outermost loop, comprehension or `with` that it is in."""
    around = around or (node if isinstance(node, _AROUND) else None)
    if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        yield from _names(around or node)
    elif isinstance(node, ast.AugAssign):
        yield from _names(around or node.target)
    elif isinstance(node, ast.Call) and not _is_harmless(node):
        yield from _names(around or node)
    for child in ast.iter_child_nodes(node):
        yield from _changed_by(child, around)


def _changed_inside(definition: ast.stmt) -> Iterator[str]:
    """What a function, or the methods of a class, may change when it is called."""
    for each in definition.body if isinstance(definition, _DEFINITIONS) else ():
        yield from _changed_inside(each) if isinstance(each, _DEFINITIONS) else _changed(each)


def _gone_through(node: ast.stmt) -> Iterator[str]:
    """What a statement iterates over by its name: a loader that shuffles draws random numbers for that."""
    for each in () if isinstance(node, _DEFINITIONS) else ast.walk(node):
        if isinstance(each, (ast.For, ast.AsyncFor, ast.comprehension)):
            yield from _plain(each.iter)
        elif (
            isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id in _PASSED_THROUGH
        ):
            for given in each.args:
                yield from _plain(given)


def _plain(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id


def _held(node: ast.stmt) -> Iterator[str]:
    """Names of the objects that a statement binds, whole or in part, to other names."""
    if isinstance(node, _DEFINITIONS):
        return
    waiting: list[ast.AST] = []
    for each in ast.walk(node):
        if isinstance(each, _ASSIGNMENTS) and each.value:
            waiting += each.value.elts if isinstance(each.value, (ast.Tuple, ast.List)) else [each.value]
        elif isinstance(each, (ast.For, ast.AsyncFor)):
            waiting.append(each.iter)
    for each in waiting:
        if isinstance(each, (ast.Name, ast.Attribute, ast.Subscript)):
            yield _root(each)
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.Call):
            if isinstance(each.func, ast.Name) and each.func.id in _COUNTING:
                continue
            if isinstance(each.func, ast.Attribute) and each.func.attr in _GIVING_PARTS:
                yield from _names(each)
        waiting += ast.iter_child_nodes(each)


def _is_harmless(call: ast.Call) -> bool:
    import builtins

    known = {*dir(builtins), "display"} - _CHANGING
    if isinstance(call.func, ast.Attribute):
        return call.func.attr in _TELLING | _GIVING_PARTS
    return isinstance(call.func, ast.Name) and call.func.id in known


def _names(node: ast.AST) -> Iterator[str]:
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name))
