"""Lines of a loop whose number nobody needs before the loop is over: it can stay a tensor until then.

Two kinds: a sum, `total += loss.item()`, and a list, `losses.append(loss.item())`. A number that decides what the loop does,
or that something else may look at meanwhile, is not one of them.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Collection
from dataclasses import dataclass

from accel.workload.read_backs import Number

Loop = ast.For | ast.While
Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, eq=False)
class DeferredRead:
    """One such statement with its loop; `line` and `after` are what to write in its place, and after the loop.

    >>> found, = deferred_reads(ast.parse("total = 0.0\\nfor x in data:\\n    total += f(x).item()"), lambda _: "float")
    >>> found.line, found.after
    ('total += f(x).detach().double()', 'total = float(total)')
    """

    statement: ast.AugAssign | ast.Expr
    read: ast.Call
    loop: Loop
    name: str
    number: Number

    @property
    def is_list(self) -> bool:
        """Whether the numbers are collected in a list, else summed up."""
        return isinstance(self.statement, ast.Expr)

    @property
    def is_item(self) -> bool:
        """Whether it is read by `.item()`, else by `float(…)`."""
        return isinstance(self.read.func, ast.Attribute)

    @property
    def line(self) -> str:
        """The statement without the wait."""
        return ast.unparse(self.with_read(lambda tensor: _plain_tensor(tensor, self)))

    @property
    def after(self) -> str:
        """The statement for behind the loop, which then waits once. Doubles, as Python's numbers are: sums stay exact."""
        if self.is_list:
            number = "float(value)" if self.number == "float" else "value.item()"
            return (
                f"{self.name}[:] = [{number} if hasattr(value, 'item') else value for value in {self.name}]"
            )
        return f"{self.name} = {'float' if self.number == 'float' else 'int'}({self.name})"

    def with_read(self, make: Callable[[ast.expr], ast.expr]) -> ast.stmt:
        """The statement with `make(tensor)` in place of what reads the tensor."""

        class Replace(ast.NodeTransformer):
            def visit_Call(self, node: ast.Call) -> ast.AST:
                if ast.dump(node) == wanted:
                    return ast.copy_location(make(tensor_read(node)), node)
                return self.generic_visit(node)

        wanted = ast.dump(self.read)
        changed: ast.stmt = Replace().visit(copy.deepcopy(self.statement))
        return changed

    def __str__(self) -> str:
        return f"Write `{self.line}` there and `{self.after}` after the loop, which then waits once."


def deferred_reads(
    tree: ast.Module,
    number_of: Callable[[ast.stmt], Number | None],
    shared: Callable[[ast.Module], Collection[str]] = lambda tree: (),
) -> list[DeferredRead]:
    """All such statements of a tree, in order; `number_of` tells what Python gets there, None where nothing is known.

    Names in `shared(tree)`, which is asked only where it matters, are left alone at the top of the cell: functions look them up.
    """
    finder = _Finder(number_of)
    finder.visit(tree)
    if not any(is_at_top for _, is_at_top in finder.found):
        return [read for read, _ in finder.found]
    names = shared(tree)
    return [read for read, is_at_top in finder.found if not is_at_top or read.name not in names]


def deferred_read(tree: ast.Module, line: int, number: Number = "float") -> DeferredRead | None:
    """The one of that line, if it is one."""
    found = deferred_reads(tree, lambda statement: number if statement.lineno == line else None)
    return found[0] if found else None


def tensor_read(call: ast.Call) -> ast.expr:
    """The tensor in `tensor.item()` or `float(tensor)`."""
    return call.func.value if isinstance(call.func, ast.Attribute) else call.args[0]


def _plain_tensor(tensor: ast.expr, read: DeferredRead) -> ast.expr:
    # A copy for a list: under CUDA graphs the next step writes over its result.
    last = "clone" if read.is_list else "double" if read.number == "float" else "long"
    for method in ("detach", last):
        tensor = ast.Call(ast.Attribute(tensor, method, ast.Load()), [], [])
    return tensor


class _Finder(ast.NodeVisitor):
    """Goes through a tree, knowing at each statement its function and the innermost loop around it."""

    def __init__(self, number_of: Callable[[ast.stmt], Number | None]) -> None:
        self._number_of = number_of
        self._scope: Scope | None = None
        self._loop: Loop | None = None
        self.found: list[tuple[DeferredRead, bool]] = []  # whether it stands at the top of the cell

    def visit_Module(self, node: ast.Module) -> None:
        self._inside(node, node, None)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._inside(node, node, None)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._inside(node, node, None)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside(node, None, None)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> None:
        self._inside(node, self._scope, None)

    def visit_For(self, node: ast.For) -> None:
        self._inside(node, self._scope, node)

    def visit_While(self, node: ast.While) -> None:
        self._inside(node, self._scope, node)

    def _inside(self, node: ast.AST, scope: Scope | None, loop: Loop | None) -> None:
        before = self._scope, self._loop
        self._scope, self._loop = scope, loop
        self.generic_visit(node)
        self._scope, self._loop = before

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.op, ast.Add) and isinstance(node.target, ast.Name):
            self._consider(node, node.target.id, node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and len(call.args) == 1):
            return
        holder = call.func.value
        if call.func.attr == "append" and isinstance(holder, ast.Name) and _is_read(call.args[0]):
            self._consider(node, holder.id, call.args[0])

    def _consider(self, statement: ast.AugAssign | ast.Expr, name: str, value: ast.expr) -> None:
        scope, loop = self._scope, self._loop
        if scope is None or loop is None or (number := self._number_of(statement)) is None:
            return
        reads = [node for node in ast.walk(value) if isinstance(node, ast.Call) and _is_read(node)]
        if len(reads) != 1 or not _is_of_numbers(value, reads[0], number):
            return
        found = DeferredRead(statement, reads[0], loop, name, number)
        starts = _starts_as_list(scope, name) if found.is_list else _starts_as_number(scope, name, number)
        if starts and not _is_seen_meanwhile(found, scope):
            self.found.append((found, isinstance(scope, ast.Module)))


def _is_read(node: ast.AST) -> bool:
    """`tensor.item()` or `float(tensor)`."""
    if not isinstance(node, ast.Call) or node.keywords:
        return False
    if isinstance(node.func, ast.Attribute):
        return node.func.attr == "item" and not node.args
    return isinstance(node.func, ast.Name) and node.func.id == "float" and len(node.args) == 1


def _is_of_numbers(value: ast.expr, read: ast.Call, number: Number) -> bool:
    """Whether a tensor in place of the number gives the same: as doubles do, and whole numbers only by themselves."""
    if value is read:
        return True
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
        return False
    side = value.left if any(node is read for node in ast.walk(value.left)) else value.right
    return number == "float" and _is_of_numbers(side, read, number)


def _starts_as_number(scope: Scope, name: str, number: Number) -> bool:
    """Whether it begins as a number of Python's that such a sum keeps: a whole number for sums of those."""
    kinds = (int, float) if number == "float" else (int,)
    return any(
        isinstance(value, ast.Constant) and type(value.value) in kinds for value in _assigned(scope, name)
    )


def _starts_as_list(scope: Scope, name: str) -> bool:
    return any(isinstance(value, ast.List) for value in _assigned(scope, name))


def _assigned(scope: Scope, name: str) -> list[ast.expr]:
    """What the scope assigns to the name, also in `a, b = 0.0, 0`."""
    values = []
    for node in ast.walk(scope):
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        for target in targets:
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = list(zip(target.elts, value.elts, strict=False))
            else:
                pairs = [(target, value)] if value is not None else []
            values += [each for place, each in pairs if isinstance(place, ast.Name) and place.id == name]
    return values


def _is_seen_meanwhile(read: DeferredRead, scope: Scope) -> bool:
    """Whether anything may look at the name while the loop runs: its own body, a function in the scope, a generator's caller."""
    own = {id(node) for node in ast.walk(read.statement)}
    in_loop = [node for node in ast.walk(read.loop) if id(node) not in own]
    if any(isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)) for node in in_loop):
        return True
    inner = [
        node
        for function in ast.walk(scope)
        if isinstance(function, _FUNCTIONS) and function is not scope
        for node in ast.walk(function)
    ]
    declared = [
        node
        for node in ast.walk(scope)
        if isinstance(node, (ast.Global, ast.Nonlocal)) and read.name in node.names
    ]
    return bool(declared) or any(
        isinstance(node, ast.Name) and node.id == read.name and not isinstance(node.ctx, ast.Store)
        for node in (*in_loop, *inner)
    )
