"""An acceleration's plain PyTorch as statements of the cell, with only the imports that are missing there."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from accel.exporting.cell_tree import CellTree

if TYPE_CHECKING:
    import libcst as cst

    from accel.accelerations.acceleration import Acceleration
    from accel.workload.workload import Role, Workload


def as_code_for(entry: Acceleration, workload: Workload, roles: Iterable[Role]) -> str:
    """The entry's plain lines for some of the workload's objects only."""
    return entry.as_code(replace(workload, roles=tuple(roles))).strip("\n")


def without_known_imports(code: str, known: set[str]) -> str:
    r"""The code without the imports at its top level that bind only names in `known`.

    >>> without_known_imports("import torch\ntorch.set_num_threads(2)", {"torch"})
    'torch.set_num_threads(2)'
    """
    lines: list[str | None] = list(code.splitlines())
    for node in ast.parse(code).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)) and _imported(node) <= known:
            after = node.end_lineno or node.lineno
            lines[node.lineno - 1 : after] = [None] * (after - node.lineno + 1)
            if after < len(lines) and lines[after] == "":  # the blank line that set the imports apart
                lines[after] = None
    return "\n".join(line for line in lines if line is not None)


def title(entry: Acceleration) -> str:
    """The entry's name and the first line of its card.

    >>> from accel.accelerations import by_name
    >>> title(by_name("fused_optimizer")())
    'fused_optimizer: Let Adam, AdamW, SGD or Adagrad update all parameters in one fused kernel.'
    """
    return f"{entry.name}: {(inspect.getdoc(type(entry)) or '').partition(chr(10))[0]}"


def statements(code: str, *, is_apart: bool) -> list[Any]:
    """The code as nodes for the cell, comments with the statement they stand above; a blank line first if `is_apart`."""
    import libcst as cst

    module = cst.parse_module(code + "\n")
    first, *rest = module.body
    blank = [cst.EmptyLine(indent=False)] if is_apart else []
    return [first.with_changes(leading_lines=[*blank, *module.header, *first.leading_lines]), *rest]


def names_known_at(tree: CellTree, place: cst.CSTNode | None, namespace: dict[str, Any]) -> set[str]:
    """Names an inserted statement may rely on: the notebook's own from before, and imports of the cell above the place.

    After the profiled run the notebook holds the cell's names too; those it binds itself count only above the place.
    """
    import libcst as cst

    bound_by_cell: set[str] = set()
    bound_above: set[str] = set()
    is_above = True
    for node in _walk(tree.module):
        is_above = is_above and node is not place
        names: set[str] = set()
        if isinstance(node, (cst.Import, cst.ImportFrom)):
            names = {
                name
                for part in ast.parse(tree.module.code_for_node(node).strip()).body
                for name in _imported(part)
            }
        bound_by_cell |= names
        bound_above |= names if is_above else set()
    return (set(namespace) - bound_by_cell) | bound_above


def _walk(node: cst.CSTNode) -> Iterable[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _walk(child)


def _imported(node: ast.AST) -> set[str]:
    """The names that an import statement binds."""
    if not isinstance(node, (ast.Import, ast.ImportFrom)):
        return set()
    return {(alias.asname or alias.name.partition(".")[0]) for alias in node.names}


def imported_names(code: str) -> set[str]:
    """What the imports at the top level of the code bind."""
    return {name for node in ast.parse(code).body for name in _imported(node)}


def reads_torch(code: str) -> bool:
    """Whether the code uses the name `torch`."""
    return any(isinstance(node, ast.Name) and node.id == "torch" for node in ast.walk(ast.parse(code)))
