"""The same line of a loop without its `.item()`: the number stays a tensor until the loop is over."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass


@dataclass(frozen=True)
class DeferredRead:
    """What to write in place of a line, and what to add after the loop, for the same number in the end.

    >>> deferred_read(ast.parse("for x in data:\\n    total += f(x).item()"), 2)
    DeferredRead(line='total += f(x).detach().double()', after='total = float(total)')
    """

    line: str
    after: str

    def __str__(self) -> str:
        return f"Write `{self.line}` there and `{self.after}` after the loop, which then waits once."


def deferred_read(tree: ast.Module, line: int) -> DeferredRead | None:
    """The edit for a sum (`total += loss.item()`) or a list (`losses.append(loss.item())`); None for any other line.

    None too where the loop uses the number while it runs, other than to show it: what decides has to be waited for.
    """
    loops = [node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While))]
    for loop in loops:
        for statement in ast.walk(loop):
            if isinstance(statement, ast.stmt) and statement.lineno == line:
                found = _of_sum(statement) or _of_list(statement)
                if found is not None and not _is_used_meanwhile(loops, statement, found[0]):
                    return found[1]
    return None


def _of_sum(statement: ast.stmt) -> tuple[str, DeferredRead] | None:
    if not (isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add)):
        return None
    if not isinstance(statement.target, ast.Name) or not _reads(statement.value):
        return None
    name = statement.target.id
    # Doubles, as Python's numbers are: a sum of many float32 would be less exact than it was.
    return name, DeferredRead(_without_item(statement, ".detach().double()"), f"{name} = float({name})")


def _of_list(statement: ast.stmt) -> tuple[str, DeferredRead] | None:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not (
        isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "append"
    ):
        return None
    if not isinstance(call.func.value, ast.Name) or len(call.args) != 1 or not _is_item(call.args[0]):
        return None
    name = call.func.value.id
    return name, DeferredRead(_without_item(statement, ".detach()"), f"{name} = torch.stack({name}).tolist()")


def _reads(value: ast.expr) -> bool:
    """Whether the value is made of `.item()` by plain arithmetic."""
    if isinstance(value, ast.BinOp):
        return _reads(value.left) or _reads(value.right)
    return _is_item(value)


def _is_item(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item"
        and not node.args
    )  # fmt: skip


def _without_item(statement: ast.stmt, instead: str) -> str:
    class Replace(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.generic_visit(node)
            if not _is_item(node):
                return node
            made = ast.parse(f"x{instead}", mode="eval").body
            for part in ast.walk(made):
                if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                    part.value = node.func.value  # type: ignore[attr-defined]
                    break
            return made

    return ast.unparse(Replace().visit(copy.deepcopy(statement)))


def _is_used_meanwhile(loops: list[ast.For | ast.While], own: ast.stmt, name: str) -> bool:
    """Whether a loop round the line reads the name elsewhere; sets to start from anew (`total = 0.0`) are no reads."""
    around = [loop for loop in loops if any(node is own for node in ast.walk(loop))]
    inner = min(around, key=lambda loop: sum(1 for _ in ast.walk(loop)))
    outside = {id(node) for node in ast.walk(own)}
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) and id(node) not in outside
        for node in ast.walk(inner)
    )  # fmt: skip
