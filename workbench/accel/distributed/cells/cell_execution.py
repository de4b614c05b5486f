"""The text of a cell run as a notebook runs it: the value of its last line is shown."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from accel.workload.cell_code import compiled, run_code
from accel.workload.training_code import as_changed

Prepare = Callable[[ast.Module], ast.Module]


def execute_cell(
    source: str, filename: str, namespace: dict[str, Any], prepared: Prepare | None = None
) -> None:
    """Run a cell; what its last expression gives is printed, unless it is None or a semicolon follows.

    A plan may have changed its lines; `prepared` changes its syntax tree further.

    >>> execute_cell("x = 2\\nx + 1", "<cell>", {})
    3
    """
    tree = as_changed(ast.parse(source, filename))
    if prepared is not None:
        tree = prepared(tree)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr) or source.rstrip().endswith(";"):
        run_code(compiled(tree, filename), namespace=namespace)
        return
    before = compiled(ast.Module(tree.body[:-1], []), filename)
    value = run_code(before, compiled(ast.Expression(last.value), filename), namespace=namespace)
    if value is not None:
        print(repr(value))
