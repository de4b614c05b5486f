"""Where in a cell statements go: before the first use of existing objects, or after the lines that build new ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from accel.exporting.cell_tree import CellTree, Use
from accel.exporting.holders import can_reach

if TYPE_CHECKING:
    import libcst as cst

    from accel.workload.workload import Role


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

    `model = CNN()` followed by `model = model.to(device)` counts once, after the second. Of `trainer.model` it is what assigns
    that attribute, else what builds the trainer.
    """
    root, _, attribute = name.partition(".")
    if attribute and (assigned := [use.statement for use in tree.of(root) if _assigns(tree, use, name)]):
        return assigned
    bindings = _assignments(tree, root)
    places: list[cst.CSTNode] = []
    is_finished = False  # whether a place for the object at hand was found
    for binding, following in zip_longest(bindings, bindings[1:]):
        is_finished = is_finished and _refines(tree, binding)
        is_finished_later = following is not None and _finishes_later(tree, binding, following)
        if not is_finished and not is_finished_later:
            places.append(binding.statement)
            is_finished = True
    return places


def is_in_time(tree: CellTree, place: cst.CSTNode, role: Role) -> bool:
    """Whether the object is there after this place, and not used before: `learner.fit()` may build its optimizer, and use it.

    True where nothing is known of when it was built. Models may be called where they are built: to see the size of a layer.
    """
    built, used = _line_in_function(tree, place, role.built_on), _line_in_function(tree, place, role.used_on)
    lines = tree.lines(place)
    if role.built_on and (built is None or built >= lines.stop):
        return False
    return role.kind == "models" or used not in lines


def _line_in_function(tree: CellTree, place: cst.CSTNode, running: tuple[int, ...]) -> int | None:
    """The line, of those that were running at a time, that belongs to the same function as the place."""
    import libcst as cst

    function = next(
        (node for node in tree.ancestors(place) if isinstance(node, cst.FunctionDef)), tree.module
    )
    own = [line for line in reversed(running) if function is tree.module or line in tree.lines(function)]
    return own[0] if own else None


def after_loading(tree: CellTree, name: str) -> list[cst.CSTNode]:
    """The statements `name.load_state_dict(…)` of the cell, which set an optimizer's flags anew."""
    asked = f"{name}.load_state_dict"
    uses = tree.of(name.partition(".")[0])
    return [use.statement for use in uses if _attribute_path(tree, use.node) == asked]


def _attribute_path(tree: CellTree, node: cst.CSTNode) -> str:
    """The whole of `trainer.optimizer.step` where the node is its first word."""
    import libcst as cst

    while isinstance(parent := tree.parents[node], cst.Attribute) and parent.value is node:
        node = parent
    return tree.module.code_for_node(node)


def _assigns(tree: CellTree, use: Use, name: str) -> bool:
    """Whether a use of the root of a dotted name is in an assignment to that very name."""
    import libcst as cst

    node: cst.CSTNode = use.node
    while isinstance(tree.parents[node], cst.Attribute):
        node = tree.parents[node]
    is_target = isinstance(tree.parents[node], (cst.AssignTarget, cst.AnnAssign))
    return (
        is_target
        and _attribute_path(tree, use.node) == name
        and isinstance(use.statement, (cst.Assign, cst.AnnAssign))
    )


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
