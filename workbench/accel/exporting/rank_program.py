"""The source of `TrainingOnRanks` with all that it needs of accel, as one function for a program that has no accel."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from typing import Any

NAME = "_training_on_ranks"
_ROOT = "joined"
# In a program nothing is taken back: it ends.
_PATCHES = """
class AttributePatches:
    def wrap(self, owner, name, make):
        setattr(owner, name, make(getattr(owner, name)))

    def take_back(self):
        pass
"""


def rank_program() -> str:
    """A function that gives a `TrainingOnRanks`; all else is inside of it, so that no name is the program's own.

    >>> rank_program().splitlines()[0]
    'def _training_on_ranks(namespace):'
    """
    from accel.distributed.data_parallel import averaging, graph_leaves, lineages, shared_loader, shares
    from accel.exporting import training_on_ranks
    from accel.workload import generators

    modules = (generators, lineages, shares, shared_loader, averaging, graph_leaves, training_on_ranks)
    sources = [_PATCHES, *(inspect.getsource(module) for module in modules)]
    nodes = [node for source in sources for node in ast.parse(source).body]
    imports = {
        ast.unparse(node): node
        for node in nodes
        if isinstance(node, (ast.Import, ast.ImportFrom)) and _is_plain(node)
    }
    body = [_Plain().visit(node) for node in _reached(nodes)]
    used = _names(body)
    for node in imports.values():
        node.names = [each for each in node.names if (each.asname or each.name).partition(".")[0] in used]
    head = [node for node in imports.values() if node.names]
    text = ast.unparse(ast.fix_missing_locations(ast.Module([*head, *body], [])))
    indented = "\n".join(f"    {line}" if line else "" for line in text.splitlines())
    about = '    """Train data-parallel: a loader that trains gives each rank its part, and gradients are means."""'
    return f"def {NAME}(namespace):\n{about}\n{indented}\n\n    return {_ROOT}(namespace)"


def _reached(nodes: Iterable[ast.stmt]) -> list[ast.stmt]:
    """The definitions that the root leads to, in their order."""
    defined = {name: node for node in nodes for name in _defined(node)}
    waiting, reached = [_ROOT], dict[str, ast.stmt]()
    while waiting:
        name = waiting.pop()
        if name in defined and name not in reached:
            reached[name] = _Plain().visit(defined[name])
            waiting += _names([reached[name]])
    found = [node for name, node in defined.items() if name in reached]
    while _without_unused_methods(found):
        pass
    return found


def _without_unused_methods(nodes: list[ast.stmt]) -> bool:
    """Whether it found one to take out."""
    called = {each.attr for node in nodes for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    is_changed = False
    for node in nodes:
        if isinstance(node, ast.ClassDef) and node.name != "TrainingOnRanks":
            kept = [each for each in node.body if _is_called(each, called)]
            is_changed |= len(kept) < len(node.body)
            node.body = kept
    return is_changed


def _is_called(node: ast.stmt, names: set[str]) -> bool:
    return not isinstance(node, ast.FunctionDef) or node.name.startswith("__") or node.name in names


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    return {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}


def _is_plain(node: ast.Import | ast.ImportFrom) -> bool:
    module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
    return module.partition(".")[0] not in ("accel", "__future__")


class _Plain(ast.NodeTransformer):
    """Takes type hints away, and of docstrings all but the first line; a dataclass keeps its fields."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.returns = None
        return self._shortened(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        for each in node.body:
            if isinstance(each, ast.AnnAssign):
                each.annotation = ast.Name("object", ast.Load())
        return self._shortened(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if isinstance(node.annotation, ast.Name) and node.annotation.id == "object":
            return node
        return ast.Assign(targets=[node.target], value=node.value) if node.value is not None else ast.Pass()

    def _shortened(self, node: Any) -> Any:
        text = ast.get_docstring(node)
        if text is not None:
            node.body[0] = ast.Expr(ast.Constant(text.splitlines()[0]))
        self.generic_visit(node)
        return node
