"""Names and attributes that a cell uses, in functions of earlier cells too: whether it mentions something at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel.workload.workload import Workload


def names_used(workload: Workload) -> frozenset[str]:
    """Every name and attribute in the cell, and in the notebook's functions that it reads.

    >>> "detect_anomaly" in names_used(workload)
    True
    """
    return names_in_cell(workload) | names_in_functions(workload)


def names_in_cell(workload: Workload) -> frozenset[str]:
    """Those of the cell itself; none where it cannot be parsed."""
    try:
        nodes = list(ast.walk(ast.parse(workload.source)))
    except SyntaxError:
        return frozenset()
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return frozenset(names | {node.attr for node in nodes if isinstance(node, ast.Attribute)})


def names_in_functions(workload: Workload) -> frozenset[str]:
    """Those of functions and classes of earlier cells that the cell reads, and of the user's imported functions."""
    return frozenset(name for code in _codes(workload) for name in code.co_names)


def _codes(workload: Workload) -> Iterator[CodeType]:
    from accel.workload.namespace_reads import codes_behind, nested_codes

    namespace = workload.namespace
    waiting = [
        code
        for name in workload.reads
        if name in namespace
        for code in codes_behind(namespace[name], namespace)
    ]
    imported = [workload.namespace.get(name) for name in workload.reads]
    waiting += [each.__code__ for each in imported if isinstance(each, FunctionType) and not _is_torch(each)]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += nested_codes(code)


def _is_torch(function: FunctionType) -> bool:
    return (function.__module__ or "").partition(".")[0] == "torch"
