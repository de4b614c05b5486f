"""Where a cell is in its own `for` loops, and how it comes to be there again: each loop asks us for its items."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from accel.errors import AccelError

_ASKS = "__accel_loop__"
_ITEM = "__accel_item__"


def with_loops_asking(tree: ast.Module) -> ast.Module:
    """The cell with `for x in it:` as `for x in __accel_loop__("3:0", lambda: it, "x"):`, functions and classes left alone.

    >>> ast.unparse(with_loops_asking(ast.parse("for epoch in range(3): train()")))
    "for epoch in __accel_loop__('1:0', lambda: range(3), 'epoch'):\\n    train()"
    """
    asking = _Asking().visit(tree)
    return ast.fix_missing_locations(asking)  # type: ignore[no-any-return]


class LoopHost(Protocol):
    """What the loops tell, and ask."""

    @property
    def steps(self) -> int:
        """Optimizer steps so far."""

    def loop_begins(self) -> Any:
        """A loop is about to ask for its first item; what is returned is kept with it."""

    def first_item(self, entry: Any) -> None:
        """It has its first item."""

    def skips(self) -> None:
        """The body of a loop begins where it was left, or a loop that was over is passed by."""

    def replay_begins(self, taken: int) -> int:
        """The innermost loop begins; says how many items it takes again, without its body."""

    def goes_on(self) -> None:
        """The loop is where it was left."""

    def step_is_over(self, position: list[dict[str, Any]], entries: list[Any], targets: set[str]) -> None:
        """The body of the innermost loop has come to its end, with a step in it; `targets`: the names of its items."""


class CellLoops:
    """The loops that the cell is in, outermost first; with a `position` from a checkpoint, they are led there.

    >>> loops = CellLoops(namespace, host, position=[])
    >>> exec(compile(with_loops_asking(tree), filename, "exec"), namespace)

    Loops that trained and were over are passed by. A loop that was in its third item begins with its third item. The innermost
    takes as many items as it had and throws them away, so that everything that happens by taking them has happened.
    """

    def __init__(self, namespace: dict[str, Any], host: LoopHost, position: list[dict[str, Any]]) -> None:
        self._namespace, self._host = namespace, host
        self._goal = position
        self._open: list[dict[str, Any]] = [{"loop": "", "taken": 0, "over": []}]
        self._entries: list[Any] = []
        self._without_steps: set[str] = set()  # loops that need no looking after
        namespace[_ASKS] = self._items

    @property
    def is_on_its_way(self) -> bool:
        """Whether the position is still ahead."""
        return bool(self._goal)

    def close(self) -> None:
        """Take the loops' hook out of the namespace."""
        for name in (_ASKS, _ITEM):
            self._namespace.pop(name, None)

    def _items(self, loop: str, items: Callable[[], Any], target: str) -> Iterator[Any]:
        if loop in self._without_steps:
            yield from items()
            return
        if self._goal and loop in self._goal[len(self._open) - 1]["over"]:
            self._open[-1]["over"].append(loop)
            self._host.skips()
            return
        entry, steps = self._host.loop_begins(), self._host.steps
        here: dict[str, Any] = {"loop": loop, "taken": 0, "over": []}
        leads = self._leads(loop)
        depth = len(self._open)
        self._open.append(here)
        self._entries.append(entry)
        try:
            taking = self._led(here, items, target) if leads else iter(items())
            yield from self._watched(here, taking, entry, target)
        finally:
            del self._open[depth:], self._entries[depth - 1 :]
            if leads or self._host.steps != steps:
                self._open[-1]["over"].append(loop)
            elif not self._goal:
                self._without_steps.add(loop)

    def _watched(self, here: dict[str, Any], taking: Iterator[Any], entry: Any, target: str) -> Iterator[Any]:
        before, targets, is_first = self._host.steps, _names_in(target), True
        while True:
            if self._host.steps != before and not self._goal:
                position = [{**each, "over": [*each["over"]]} for each in self._open]
                self._host.step_is_over(position, self._entries, targets)
            before = self._host.steps
            try:
                item = next(taking)
            except StopIteration:
                return
            if is_first:
                self._host.first_item(entry)
                is_first = False
            here["taken"] += 1
            here["over"].clear()
            yield item

    def _leads(self, loop: str) -> bool:
        at = len(self._open)
        return len(self._goal) > at and self._goal[at]["loop"] == loop

    def _led(self, here: dict[str, Any], items: Callable[[], Any], target: str) -> Iterator[Any]:
        """The items from the one on that this loop was left in."""
        depth = len(self._open) - 1
        goal, is_innermost = self._goal[depth], depth == len(self._goal) - 1
        again = self._host.replay_begins(goal["taken"]) if is_innermost else goal["taken"] - 1
        taking: Iterator[Any] = iter(items())
        item: Any = None
        for _ in range(again):
            try:
                item = next(taking)
            except StopIteration:
                raise AccelError(
                    f"Going on in the loop in line {goal['loop'].split(':')[0]}",
                    because=f"it had taken {goal['taken']} items, and now there are fewer",
                    do="Name another --checkpoint folder to train from the beginning: these belong to other data.",
                ) from None
        here["taken"] = goal["taken"] if is_innermost else again
        if not is_innermost:
            self._host.skips()
            return taking
        if again:
            self._namespace[_ITEM] = item
            exec(f"{target} = {_ITEM}", self._namespace)  # as the loop itself would have
        here["over"] = [*goal["over"]]
        self._goal = []
        self._host.goes_on()
        return taking


def _names_in(target: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(target)) if isinstance(node, ast.Name)}


class _Asking(ast.NodeTransformer):
    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        if any(isinstance(each, (ast.NamedExpr, ast.Await, ast.Yield)) for each in ast.walk(node.iter)):
            return node
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        words = [
            ast.Constant(f"{node.lineno}:{node.col_offset}"),
            ast.Lambda(nothing, node.iter),
            ast.Constant(ast.unparse(node.target)),
        ]
        node.iter = ast.copy_location(ast.Call(ast.Name(_ASKS, ast.Load()), words, []), node.iter)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node
