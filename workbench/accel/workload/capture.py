"""Watch one training cell while it runs, and remember it as the workload."""

from __future__ import annotations

import ast
import hashlib
import linecache
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from time import perf_counter_ns
from types import TracebackType
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError, LeftOut
from accel.machine.peaks.other_work import OtherWork, Taken
from accel.workload.cell_names import names_read, names_written
from accel.workload.forward_calls import CallsOfLine, calls_of_lines
from accel.workload.loop_probe import ProbeLoops
from accel.workload.phase_marks import PhaseMarks
from accel.workload.phase_record import BoundaryNote, ForwardCall, Mark
from accel.workload.roles import names_by_id, names_of_models, roles_of
from accel.workload.run_conditions import RunConditions, read_conditions
from accel.workload.step_boundaries import Steps, Watched, find_steps
from accel.workload.workload import Workload

if TYPE_CHECKING:
    from typing_extensions import Self

LEAST_WATCHED_S = 0.5  # the system counts CPU time in ticks of 10 ms
TIMES_OF_OTHERS = "CPU times of other programs"
MOST_STEP_NODES = 51  # the ends of the last 50 steps, and of the one before them


@dataclass(frozen=True)
class Recording:
    """What was seen of one run: all marks, when it began and ended (`time.perf_counter_ns`), and its steps.

    `notes` are what was going on at each boundary, `conditions` the settings that were in force.
    """

    marks: tuple[Mark, ...] = field(repr=False)
    started_ns: int
    ended_ns: int
    steps: Steps
    notes: tuple[BoundaryNote, ...] = field(default=(), repr=False)
    forward_calls: tuple[ForwardCall, ...] = field(default=(), repr=False)
    conditions: RunConditions | None = None

    @property
    def duration_ms(self) -> float:
        """Time of the whole cell in ms."""
        return (self.ended_ns - self.started_ns) / 1e6


class CellCapture:
    """Captures one run of a cell; the runner is the caller's: IPython's, or `exec`.

    >>> capture = CellCapture(cell, source, namespace)
    >>> tree = capture.transform(ast.parse(source))
    >>> with capture:
    ...     exec(compile(tree, capture.filename, "exec"), namespace)
    >>> workload, recording = capture.finish()

    `finish` works after the cell raised or was interrupted: the recording then holds what had run.
    """

    def __init__(
        self, cell: str, source: str, namespace: dict[str, Any], *, filename: str | None = None
    ) -> None:
        self.cell, self.source, self.namespace = cell, source, namespace
        self.filename = filename or f"<accel cell {hashlib.sha256(source.encode()).hexdigest()[:10]}>"
        self.left_out = LeftOut()  # what could not be read of the user's objects
        self.marks = PhaseMarks()
        self.marks.filename = self.filename
        self._reads: tuple[str, ...] = ()
        self._before: dict[int, str] = {}  # ids only: a reference would keep alive what the cell deletes
        self._times: tuple[int, int] | None = None
        self._others: OtherWork | None = None
        self._exit = ExitStack()

    def transform(self, tree: ast.Module) -> ast.Module:
        """Add the probe to the cell's own `for` loops; line numbers stay."""
        return ast.fix_missing_locations(ProbeLoops().visit(tree))  # type: ignore[no-any-return]

    def __enter__(self) -> Self:
        if self._times is not None:
            raise AccelError(
                "profile", because="this capture has run already", do="Make a new CellCapture for each run."
            )
        linecache.cache.setdefault(
            self.filename, (len(self.source), None, self.source.splitlines(keepends=True), self.filename)
        )
        self._reads = self.left_out.unless(
            "Names that the cell reads", lambda: names_read(self.source, self.namespace), ()
        )
        self._before = self.left_out.unless(
            "Variable names of objects", lambda: names_by_id(self.namespace), {}
        )
        self._others = self.left_out.unless(
            TIMES_OF_OTHERS, lambda: OtherWork(counts_children=True).__enter__(), None
        )
        self._exit.enter_context(self.marks)
        self._times = (perf_counter_ns(), 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._times is not None
        self._times = (self._times[0], perf_counter_ns())
        self._exit.close()
        if self._others is not None:
            close = self._others.__exit__
            self.left_out.unless(TIMES_OF_OTHERS, lambda: close(None, None, None), None)

    @property
    def _taken_by_others(self) -> Taken | None:
        assert self._times is not None
        is_long = self._times[1] - self._times[0] >= LEAST_WATCHED_S * 1e9
        return self._others.taken if is_long and self._others is not None else None

    def finish(self) -> tuple[Workload, Recording]:
        """The workload and the recording; call once, after the `with`. Lets go of the objects seen."""
        if self._times is None or not self._times[1]:
            raise AccelError(
                "profile", because="the cell has not run", do="Run it inside `with capture:` first."
            )
        marks = self.marks
        steps = find_steps(
            marks.marks,
            Watched(
                marks.step_ends,
                marks.passes,
                marks.forward_calls,
                marks.used_calls,
                marks.loops,
                marks.boundary_notes,
            ),
        )
        writes, autocast = names_written(self.source), tuple(sorted(marks.autocasts))
        conditions = replace(
            marks.conditions or read_conditions(), autocast=autocast, never_clears=marks.gradients.never_clears,
            step_nodes=(marks.nodes_before, *(note.nodes for note in marks.boundary_notes))[-MOST_STEP_NODES:],
            loader_workers=marks.loader_workers, fetches_in_threads=marks.fetches_in_threads,
            others=self._taken_by_others,
            loader_passes=len({steps for steps in marks.steps_at_passes if steps < marks.boundaries}),
        )  # fmt: skip
        roles = roles_of(
            marks, before=self._before, after=self.namespace, writes=writes, left_out=self.left_out
        )
        now_read = self.left_out.unless(
            "Names that the cell reads", lambda: names_read(self.source, self.namespace), ()
        )
        calls: tuple[CallsOfLine, ...] | None = self.left_out.unless(
            "Calls of models",
            lambda: calls_of_lines(marks.forward_calls, marks.marks, names_of_models(roles)),
            None,
        )
        workload = Workload(
            cell=self.cell, source=self.source, filename=self.filename, namespace=self.namespace,
            reads=self._reads, writes=writes, rereads=tuple(name for name in now_read if name not in self._reads),
            roles=roles,
            boundary=steps.boundary, accumulation=steps.accumulation,
            steps=marks.boundaries, step_ms=steps.median_ms,
            samples_per_step=steps.samples_per_step,
            clears_to_zeros=marks.clears_to_zeros,
            conditions=conditions, model_calls=calls,
        )  # fmt: skip
        recording = Recording(
            tuple(marks.marks), *self._times, steps, tuple(marks.boundary_notes), tuple(marks.forward_calls),
            conditions,
        )  # fmt: skip
        marks.let_go()
        return workload, recording
