"""A cell's code, compiled and run as a notebook does: `await` may stand at its top level."""

from __future__ import annotations

import ast
import asyncio
import inspect
from types import CodeType
from typing import Any


def compiled(tree: ast.Module | ast.Expression, filename: str) -> CodeType:
    """The code of a cell, or of an expression in it.

    >>> run_code(compiled(ast.parse("await train()"), "<cell>"), namespace=namespace)
    """
    mode = "eval" if isinstance(tree, ast.Expression) else "exec"
    code: CodeType = compile(tree, filename, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    return code


def run_code(*codes: CodeType, namespace: dict[str, Any]) -> Any:
    """Run pieces of code one after the other and give the value of the last; those that await share one event loop."""
    if any(code.co_flags & inspect.CO_COROUTINE for code in codes):
        return asyncio.run(_awaited(codes, namespace))
    value = None
    for code in codes:
        value = eval(code, namespace)
    return value


async def _awaited(codes: tuple[CodeType, ...], namespace: dict[str, Any]) -> Any:
    value = None
    for code in codes:
        value = eval(code, namespace)
        if code.co_flags & inspect.CO_COROUTINE:
            value = await value
    return value
