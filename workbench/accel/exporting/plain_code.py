"""An acceleration's plain PyTorch as statements of the cell, with only the imports that are missing there."""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from accel.exporting.cell_tree import CellTree, Use

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


def is_torch_known(tree: CellTree, place: cst.CSTNode, namespace: dict[str, Any]) -> bool:
    """Whether a statement before the place may say `torch`: from a cell before this one, or an import above the place.

    After the profiled run the notebook holds the cell's names too; those it binds itself count only above the place.
    """
    imports = [use for use in tree.of("torch") if _binds_by_import(tree, use)]
    if is_torch_local(tree, place):
        return False
    by_cell = {use.statement for use in imports if not use.functions}
    above = set(itertools.takewhile(lambda node: node is not place, _walk(tree.module)))
    return bool(by_cell & above) or ("torch" in namespace and not by_cell)


def is_torch_local(tree: CellTree, place: cst.CSTNode) -> bool:
    """Whether a function round the place imports torch for itself, perhaps only after it."""
    around = set(tree.ancestors(place))
    imports = [use for use in tree.of("torch") if _binds_by_import(tree, use)]
    return any(use.functions and use.functions[0] in around for use in imports)


def _binds_by_import(tree: CellTree, use: Use) -> bool:
    """Whether it is the word in `import torch` or in `import torch.nn`."""
    import libcst as cst

    aliases = [node for node in tree.ancestors(use.node) if isinstance(node, cst.ImportAlias)]
    return isinstance(use.statement, cst.Import) and all(alias.asname is None for alias in aliases)


def _walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
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
