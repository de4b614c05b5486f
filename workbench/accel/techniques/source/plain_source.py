"""The source of a module that uses no accel, as lines for a user's cell."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection
from types import ModuleType


def plain_source(module: ModuleType, leave_out: Collection[str] = ()) -> str:
    """Imports, functions and classes of a module, without type hints and its own docstring.

    >>> print(plain_source(batches_ahead))
    import random
    ...

    What is applied and what is exported can then never differ. `leave_out` names definitions that this cell does not need.
    """
    tree = ast.parse(inspect.getsource(module))
    body = [node for node in tree.body if not _is_of_the_file(node)]
    body = [node for node in body if not _defined(node) & set(leave_out)]
    source = ast.Module(body=[_Plain().visit(node) for node in body], type_ignores=[])
    used = {node.id for node in ast.walk(source) if isinstance(node, ast.Name)}
    source.body = [node for node in source.body if _is_used(node, used)]
    return ast.unparse(ast.fix_missing_locations(source))


def _is_of_the_file(node: ast.stmt) -> bool:
    """The docstring, and `from __future__`, which stands only at the top of a file."""
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _defined(node: ast.stmt) -> set[str]:
    """The names of a function or class, or of what is assigned."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _is_used(node: ast.stmt, used: set[str]) -> bool:
    if not isinstance(node, (ast.Import, ast.ImportFrom)):
        return True
    node.names = [name for name in node.names if (name.asname or name.name).partition(".")[0] in used]
    return bool(node.names)


class _Plain(ast.NodeTransformer):
    """Takes type hints away."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
        self.generic_visit(node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return None
        self.generic_visit(node)
        return ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node)
