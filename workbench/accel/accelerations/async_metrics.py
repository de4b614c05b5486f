"""Numbers that a loop only adds up or collects, left on the GPU until the loop is over."""

from __future__ import annotations

import ast
import itertools
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import Reason
from accel.techniques.source.deferred_code import cell_with, function_with, line_to_edit
from accel.techniques.source.deferred_read import DeferredRead, Loop, deferred_reads
from accel.units import counted
from accel.workload.read_backs import Number, ReadBack
from accel.workload.training_code import CELL
from accel.workload.user_code import CodeLine

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload
    from accel.workload.training_code import TrainingCode


@dataclass(frozen=True)
class AsyncMetrics:
    """Leave the numbers that a loop adds up or collects on the GPU until the loop is over.

    What it does
        `total += loss.item()` makes the CPU wait until the GPU has done all it was given, in every step. The profile
        names the lines that did. Sums and lists that start in the same code, and whose numbers are needed only after
        the loop, hold tensors instead, and become plain numbers when the loop is left, also by an error: sums as
        doubles, so that every number is the one of before. The code of your functions is changed while the plan is
        kept; a cell is changed each time it runs.
    When it helps
        On a GPU that waits for the CPU: short steps, many small kernels, several numbers read a step.
    When it hurts
        A list that something else looks at while the loop runs, under another name, holds tensors until then. A
        number that the loop needs (a progress bar, early stopping) is left alone: read it every hundred steps.
        A loop of millions of steps holds as many small tensors where it fills a list. Where the CPU is late anyway,
        nothing is gained. Not measured here yet.
    In plain PyTorch
        total += loss.detach().double()
        # after the loop
        total = float(total)
    References
        https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
        https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
    """

    name: ClassVar[str] = "async_metrics"
    layer: ClassVar[Layer] = "hygiene"
    effect: ClassVar[Effect] = "exact"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No line of the cell or of the notebook's functions waited for a GPU, or none that can do without."""
        if workload.reads_back is None:
            return [
                Reason(
                    "Which lines read a number back is not known",
                    "Profile the cell again with %%accel profile.",
                )
            ]
        waiting = [read for read in workload.reads_back if read.waits]
        if not waiting:
            return [
                Reason(
                    "No number was read back from a GPU in the profiled steps",
                    "Leave this off; nothing is lost.",
                )
            ]
        if all(map(_is_mps, waiting)):
            return [
                Reason(
                    "Apple's GPU has no doubles to sum up in", "Read the numbers every hundred steps instead."
                )
            ]
        if any(deferrable(code) for code in workload.objects().codes.values()):
            return []
        place = CodeLine(waiting[0].filename, waiting[0].line)
        return [
            Reason(
                f"What reads in {place} needs its number at once, or is no sum or list that starts in the same code",
                "Read it every hundred steps instead, or once an epoch.",
            )
        ]

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Run the cell and its functions with these lines changed."""
        with ExitStack() as stack:
            for code in replica.codes.values():
                if known := _numbers(code):
                    deferral = _Deferral(_place(code), known, code.names_looked_up)
                    stack.enter_context(deferral.in_force())
                    stack.enter_context(code.changed_by(deferral.change))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """How many numbers were left where they are, in each code that has such lines."""
        wanted = [_place(code) for code in replica.codes.values() if deferrable(code)]
        left = [sum(each.left for each in _deferrals.values() if each.place == place) for place in wanted]
        if not any(left):
            return Proof(False, "no line ran without reading its number")
        devices = {each.device for each in _deferrals.values() if each.left}
        reads = sum(each.read for each in _deferrals.values() if each.place in wanted)
        where, often = " and ".join(sorted(devices)), counted(reads, "time")
        return Proof(
            True,
            f"{sum(left)} numbers were left on {where}; at the end of a loop they were read {often}",
        )

    def as_code(self, workload: Workload) -> str:
        """The functions with these lines changed; of the cell's own lines, what to write in their place."""
        cell = workload.objects().codes.get(CELL)
        edits = [line_to_edit(read) for read in deferrable(cell)] if cell is not None else []
        return "\n\n".join([functions_without_waits(workload), *edits]).strip("\n") + "\n"


def functions_without_waits(workload: Workload) -> str:
    """The notebook's functions that wait in their loops, with these lines changed; empty where there are none."""
    codes = [code for code in workload.objects().codes.values() if code.function is not None]
    changed = [function_with(code, reads) for code in codes if (reads := deferrable(code))]
    return "\n\n".join(changed)


def cell_without_waits(workload: Workload) -> str | None:
    """The cell as it was typed with these lines changed; None where its lines are not those of its plain source."""
    cell = workload.objects().codes.get(CELL)
    return workload.cell if cell is None else cell_with(workload.cell, cell.source, deferrable(cell))


def deferrable(code: TrainingCode) -> list[DeferredRead]:
    """The lines of the code that waited for a GPU and need not."""
    known = _numbers(code)
    return (
        deferred_reads(code.tree, lambda statement: known.get(ast.dump(statement)), code.names_looked_up)
        if known
        else []
    )


def _is_mps(read: ReadBack) -> bool:
    return read.device.startswith("mps")


def _place(code: TrainingCode) -> tuple[str, str]:
    """What tells a code from others; a cell has another file name each time it runs."""
    return (code.filename if code.function is not None else "", code.name)


def _numbers(code: TrainingCode) -> dict[str, Number]:
    """What Python gets where the profiled run waited, by statement: a statement that is written alike is one of them."""
    lines = {read.line: read.number for read in code.reads if read.waits and not _is_mps(read)}
    found: dict[str, Number] = {}
    for node in ast.walk(code.tree) if lines else ():
        if isinstance(node, (ast.AugAssign, ast.Expr)):
            last = node.end_lineno or node.lineno
            numbers = {number for line, number in lines.items() if node.lineno <= line <= last}
            if len(numbers) == 1:
                found[ast.dump(node)] = numbers.pop()
    return found


_count: Iterator[int] = itertools.count()


@dataclass(eq=False)
class _Deferral:
    """The change of one code while it is in force, and what was seen of it."""

    place: tuple[str, str]
    numbers: dict[str, Number]
    shared: Callable[[ast.Module], Collection[str]]
    left: int = 0
    read: int = 0
    device: str = ""
    # Of this process alone: a function that was defined while it was in force may be copied into a worker.
    key: str = field(default_factory=lambda: f"{os.getpid()}-{next(_count)}", init=False)

    @contextmanager
    def in_force(self) -> Iterator[None]:
        _deferrals[self.key] = self
        try:
            yield
        finally:
            del _deferrals[self.key]

    def change(self, tree: ast.Module) -> ast.Module:
        """The tree with its lines changed and each of their loops in a `try`, so that however it ends, numbers come out."""
        found = deferred_reads(tree, lambda statement: self.numbers.get(ast.dump(statement)), self.shared)
        return ast.fix_missing_locations(_Edit(found, self.key).visit(tree)) if found else tree


_deferrals: dict[str, _Deferral] = {}


class _Edit(ast.NodeTransformer):
    """Calls of ours are reached by an import expression, so no name appears in the notebook's namespace."""

    def __init__(self, reads: list[DeferredRead], key: str) -> None:
        self._reads = {id(read.statement): read for read in reads}
        self._of_loop: dict[int, list[DeferredRead]] = {}
        for read in reads:
            self._of_loop.setdefault(id(read.loop), []).append(read)
        self._key = key

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        return self._changed(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return self._changed(node)

    def _changed(self, node: ast.AugAssign | ast.Expr) -> ast.AST:
        if (read := self._reads.get(id(node))) is None:
            return self.generic_visit(node)
        how = (read.number, "list" if read.is_list else "sum", "item" if read.is_item else "float")
        return ast.copy_location(
            read.with_read(lambda tensor: self._call("left_where_it_is", tensor, *how)), node
        )

    def visit_For(self, node: ast.For) -> ast.AST:
        return self._guarded(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        return self._guarded(node)

    def _guarded(self, node: Loop) -> ast.AST:
        reads = self._of_loop.get(id(node), [])
        self.generic_visit(node)
        if not reads:
            return node
        return ast.copy_location(ast.Try([node], [], [], [self._reading(read) for read in reads]), node)

    def _reading(self, read: DeferredRead) -> ast.stmt:
        name = ast.Name(read.name, ast.Load())
        if read.is_list:
            statement: ast.stmt = ast.Expr(self._call("read_all", name, read.number))
        else:
            statement = ast.Assign(
                [ast.Name(read.name, ast.Store())], self._call("read_sum", name, read.number)
            )
        return ast.copy_location(statement, read.statement)

    def _call(self, function: str, value: ast.expr, *how: str) -> ast.expr:
        given = ", ".join(map(repr, (*how, self._key)))
        call = ast.parse(f"__import__({__name__!r}, fromlist=['x']).{function}(0, {given})", mode="eval").body
        assert isinstance(call, ast.Call)
        call.args[0] = value
        return call


def left_where_it_is(value: Any, number: Number, into: str, read_by: str, key: str) -> Any:
    """The tensor in place of its number: as a double or whole number for a sum, a copy for a list.

    The number itself after undo, and where the value is not what the profile has seen there.
    """
    deferral = _deferrals.get(key)
    if deferral is None or not _is_as_seen(value, number, read_by):
        return value.item() if read_by == "item" else float(value)
    deferral.left, deferral.device = deferral.left + 1, str(value.device)
    tensor = value.detach()
    return tensor.clone() if into == "list" else tensor.double() if number == "float" else tensor.long()


def _is_as_seen(value: Any, number: Number, read_by: str) -> bool:
    import torch

    if not isinstance(value, torch.Tensor) or value.numel() != 1 or value.is_complex() or value.is_mps:
        return False
    return read_by == "float" or value.is_floating_point() == (number == "float")


def read_sum(value: Any, number: Number, key: str) -> Any:
    """The number, once the loop is over; what never became a tensor is left as it is."""
    return _read(value, number, key)


def read_all(values: list[Any], number: Number, key: str) -> None:
    """The numbers in their list."""
    values[:] = [_read(value, number, key) for value in values]


def _read(value: Any, number: Number, key: str) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    if (deferral := _deferrals.get(key)) is not None:
        deferral.read += 1
    return float(value) if number == "float" else value.item()
