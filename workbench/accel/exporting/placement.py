"""Where in a cell statements go: before the first use of existing objects, or after the lines that build new ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from accel.exporting.cell_tree import CellTree, Use
from accel.exporting.holders import can_reach

if TYPE_CHECKING:
    import libcst as cst


def after_header(tree: CellTree) -> cst.CSTNode | None:
    """The first statement that is more than an import, docstring, magic or definition; None when there is none."""
    return next((statement for statement in _own_statements(tree) if not _is_header(tree, statement)), None)


def before_first_use(
    tree: CellTree, names: set[str], objects: Iterable[object], namespace: dict[str, Any]
) -> cst.CSTNode | None:
    """The first statement that names one of the objects, or something that holds or reads one of them."""
    objects = list(objects)
    reach = {
        name: name in names or any(can_reach(namespace.get(name), one, namespace) for one in objects)
        for name in tree.names_in(tree.module) | {name for use in tree.uses for name in (use.name,)}
    }
    for statement in _own_statements(tree):
        if _is_definition(statement) or _is_cell_magic(tree, statement):
            continue
        if any(reach.get(name, False) for name in tree.names_in(statement)):
            return statement
    return after_header(tree)


def after_building(tree: CellTree, name: str) -> list[cst.CSTNode]:
    """The assignments after which a name stands for a finished new object; empty when no assignment can be found.

    `model = CNN()` followed by `model = model.to(device)` counts once, after the second.
    """
    bindings = _assignments(tree, name)
    places: list[cst.CSTNode] = []
    is_finished = False  # whether a place for the object at hand was found
    for binding, following in zip_longest(bindings, bindings[1:]):
        is_finished = is_finished and _refines(tree, binding)
        is_finished_later = following is not None and _finishes_later(tree, binding, following)
        if not is_finished and not is_finished_later:
            places.append(binding.statement)
            is_finished = True
    return places


def after_loading(tree: CellTree, name: str) -> list[cst.CSTNode]:
    """The statements `name.load_state_dict(…)` of the cell, which set an optimizer's flags anew."""
    import libcst as cst

    calls = [tree.parents[use.node] for use in tree.of(name) if use.kind == "attribute"]
    loading = [
        call for call in calls if isinstance(call, cst.Attribute) and call.attr.value == "load_state_dict"
    ]
    return [use.statement for use in tree.of(name) if tree.parents[use.node] in loading]


def _finishes_later(tree: CellTree, binding: Use, following: Use) -> bool:
    """Whether the next assignment makes the object to be used: it wraps this one, or nothing uses it before."""
    if not _refines(tree, following):
        return False
    uses = tree.of(binding.name)
    between = uses[uses.index(binding) + 1 : uses.index(following)]
    is_wrapped = any(use.statement is following.statement and use.kind == "reads" for use in uses)
    return is_wrapped or all(use.statement in (binding.statement, following.statement) for use in between)


def _assignments(tree: CellTree, name: str) -> list[Use]:
    """The assignments to a name at the cell's own level; else those inside the one function that has them."""
    import libcst as cst

    assigned = [
        use
        for use in tree.of(name)
        if use.kind == "binds"
        and isinstance(use.statement, (cst.Assign, cst.AnnAssign))
        and not _is_parameter(tree, use)
    ]
    own_level = [use for use in assigned if not use.functions]
    if own_level:
        return own_level
    return assigned if len({use.functions for use in assigned}) == 1 else []


def _is_parameter(tree: CellTree, use: Use) -> bool:
    import libcst as cst

    return isinstance(tree.parents[use.node], cst.Param)


def _refines(tree: CellTree, binding: Use) -> bool:
    """Whether the assignment makes the new value from the old one: `model = model.to(device)`."""
    return any(use.statement is binding.statement and use.kind != "binds" for use in tree.of(binding.name))


def _own_statements(tree: CellTree) -> Iterator[cst.CSTNode]:
    """The cell's statements, one by one also where several share a line."""
    import libcst as cst

    for statement in tree.module.body:
        if isinstance(statement, cst.SimpleStatementLine):
            yield from statement.body
        else:
            yield statement


def _is_definition(statement: cst.CSTNode) -> bool:
    import libcst as cst

    return isinstance(statement, (cst.Import, cst.ImportFrom, cst.FunctionDef, cst.ClassDef))


def _is_header(tree: CellTree, statement: cst.CSTNode) -> bool:
    import libcst as cst

    if not isinstance(statement, cst.Expr):
        return _is_definition(statement)
    is_magic = isinstance(statement.value, cst.Name) and statement.value.value in tree.magics.lines
    is_text = isinstance(statement.value, (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString))
    return is_text or (is_magic and not _runs_code(tree, statement))


def _is_cell_magic(tree: CellTree, statement: cst.CSTNode) -> bool:
    return any(tree.magics.lines.get(name, "").startswith("%%") for name in tree.names_in(statement))


def _runs_code(tree: CellTree, statement: cst.CSTNode) -> bool:
    """Whether a magic line has Python behind its word (`%time train()`), rather than options or a shell command."""
    lines = [tree.magics.lines[name] for name in tree.names_in(statement) if name in tree.magics.lines]
    return any(line.startswith("%") and not line.startswith("%%") and "(" in line for line in lines)
