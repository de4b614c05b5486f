"""A probe on the `for` loops of a cell, so that waiting for data is seen whatever the data comes from.

Only loops that the cell itself runs are rewritten. Functions and classes it defines stay as written: they outlive the
cell, may be compiled by dynamo, and may be copied into a worker.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from accel.workload.loop_record import NOTHING, Fetch, LoopLine
from accel.workload.phase_marks import active_marks

if TYPE_CHECKING:
    from typing_extensions import Self

    from accel.workload.phase_marks import PhaseMarks

QUIET_ITERATIONS = 64  # a loop that did nothing of a training step for so long is left alone


class ProbeLoops(ast.NodeTransformer):
    """Rewrites `for x in E` to iterate over a probe of E; line numbers stay.

    The probe is reached by an import expression, so no name appears in the notebook's namespace.

    >>> ast.fix_missing_locations(ProbeLoops().visit(ast.parse("for x in data: pass")))
    """

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        probe = ast.parse(
            f"__import__({__name__!r}, fromlist=['iterate']).iterate(0, {node.lineno})", mode="eval"
        ).body
        assert isinstance(probe, ast.Call)
        for part in ast.walk(probe):
            ast.copy_location(part, node.iter)
        probe.args[0] = node.iter
        node.iter = probe
        return node

    def leave_alone(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = leave_alone


class LoopProbe:
    """An iterator that marks the time to the next item, and otherwise is the one it wraps."""

    __slots__ = ("_iterator", "_line", "_lineno", "_marks", "_run")

    def __init__(self, iterator: Iterator[Any], lineno: int, marks: PhaseMarks) -> None:
        self._iterator, self._lineno, self._marks = iterator, lineno, marks
        self._line = marks.loop_lines.setdefault(lineno, LoopLine())
        self._line.events = marks.events
        self._run = marks.loops.begins(lineno)

    def __del__(self) -> None:
        self._marks.loops.ends(self._run)  # by `break`, `return` or an exception

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        marks, line = self._marks, self._line
        if line.quiet:
            line.listen(marks.events)
            if line.quiet and line.iterations >= QUIET_ITERATIONS:
                line.events = -1
                return next(self._iterator)
        if not marks.may_fetch:
            return next(self._iterator)
        line.iterations += 1
        begun_ns = marks.begin("data", self._lineno)
        marks.events -= 1  # a probe is no sign that the loop around it does anything
        line.events, marks.loops.drawn = marks.events, NOTHING
        try:
            item = next(self._iterator)
        except StopIteration:
            line.listen(marks.events)
            line.events = -1
            marks.loops.ends(self._run, begun_ns)
            raise
        finally:
            marks.end("data")
        samples, loader = marks.loops.drawn
        samples = samples or marks.loops.samples_in(item)
        marks.loops.fetches.append(Fetch(begun_ns, self._lineno, self._run, samples, loader))
        return item


def iterate(iterable: Iterable[Any], lineno: int) -> Iterator[Any]:
    """What a rewritten loop iterates over: a probe while its cell is watched, the plain iterator afterwards."""
    marks = active_marks()
    iterator = iter(iterable)
    if marks is None or marks.thread == -1:
        return iterator
    return LoopProbe(iterator, lineno, marks)
