"""Time marks around the phases of a training step, made by patches that exist only while a cell runs.

The patches themselves are in `phase_patches.py`; here is what they report to: a flat list of marks, the objects seen in
use, and the count of step boundaries.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from threading import get_ident
from time import perf_counter_ns
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from accel.errors import AccelError
from accel.workload.attribute_patches import AttributePatches
from accel.workload.page_faults import page_faults
from accel.workload.workload import Kind

if TYPE_CHECKING:
    from typing_extensions import Self

    from accel.workload.call_inputs import CallInputs
    from accel.workload.forward_calls import ForwardCall
    from accel.workload.loop_probe import LoopLine
    from accel.workload.run_conditions import RunConditions

PHASES = ("data", "copy", "forward", "loss", "backward", "zero_grad", "optimizer", "scaler")
_BEGIN_A_STEP = ("data", "copy", "forward")
MOST_MARKS = 1_000_000  # about 100 MB; a day of training must not fill the memory
_new = tuple.__new__  # half the time of Mark(...), which counts twelve times a step
_active: PhaseMarks | None = None


class Mark(NamedTuple):
    """One end of a phase; `key` tells objects of a phase apart: an id, or the line of a loop."""

    time_ns: int
    begins: bool
    phase: str
    key: int


class BoundaryNote(NamedTuple):
    """What was going on when a step ended: were graphs compiled in it, was torch.profiler running, page faults so far."""

    time_ns: int
    compiled: bool
    profiled: bool
    page_faults: int = 0


def active_marks() -> PhaseMarks | None:
    """The marks of the cell that is running now, if any."""
    return _active


class PhaseMarks:
    """Marks the phases of whatever runs inside the `with`, in this thread.

    >>> with PhaseMarks() as marks:
    ...     train_one_epoch()
    >>> marks.boundaries, marks.marks[0]

    `on_idle(boundaries)` is called when a phase is about to begin and none is open: only the user's own code
    between phases is in progress then. What it raises goes through the cell.
    """

    def __init__(self, ranges: Literal["off", "phases", "modules"] = "phases") -> None:
        self.marks: list[Mark] = []
        self.seen: list[tuple[Kind, Any]] = []
        self.on_idle: Callable[[int], None] | None = None
        self.ranges: Literal["off", "phases", "modules"] = ranges
        self.boundary_notes: list[BoundaryNote] = []
        self.forward_calls: list[ForwardCall] = []
        self.conditions: RunConditions | None = None  # read when the first backward begins
        self.clears_to_zeros = False  # an optimizer's zero_grad(set_to_none=False) was called
        self.first_optimizer: Any = None
        self.first_batch: int | None = None
        self.batch_from: int | None = None  # id of the loader that gave a batch last, since the last boundary
        self.step_loaders: Counter[int | None] = Counter()  # boundaries by that id
        self.inputs: dict[int, CallInputs] = {}  # id of a model → what it was first called with
        self.built: set[int] = set()  # ids of what was constructed during the run; see CellCapture
        self.events = (
            0  # phases begun, those of loop probes excluded: tells whether a loop's body does anything
        )
        self.thread = (
            self.home_thread
        ) = -1  # only this thread is marked; `thread` is -1 when nothing is to be marked
        self.loop_lines: dict[int, LoopLine] = {}
        self.open: dict[
            str, tuple[int, Any]
        ] = {}  # phase -> (key, range), innermost last; a phase never holds itself
        self.patches = AttributePatches()
        self._seen_ids: set[tuple[str, int]] = set()
        self._optimizer_steps = self._backward_ends = self._graphs = self._graphs_before = 0
        self._awaits_step = False  # a backward ended, and no optimizer has been seen yet
        self._exit = ExitStack()

    @property
    def may_fetch(self) -> bool:
        """Whether a loop taking its next item now fetches data: not inside a phase, an optimizer's closure excepted."""
        return get_ident() == self.thread and (not self.open or next(reversed(self.open)) == "optimizer")

    @property
    def boundaries(self) -> int:
        """Optimizer steps of the first optimizer that stepped; ends of backward while there is none."""
        return self._backward_ends if self.first_optimizer is None else self._optimizer_steps

    @property
    def step_loader(self) -> int | None:
        """Id of the loader that most steps took their batch from; None where they took it from elsewhere.

        The loader that was used first, or whose loop is longest, may be that of validation.
        """
        loader, count = max(
            self.step_loaders.items(), key=lambda each: (each[1], each[0] or 0), default=(None, 0)
        )
        return loader if 2 * count >= sum(self.step_loaders.values()) else None

    def __enter__(self) -> Self:
        global _active
        from torch._C._autograd import _profiler_enabled
        from torch._C._profiler import _RecordFunctionFast

        from accel.workload.phase_patches import install_patches

        if _active is not None:
            raise AccelError(
                "profile", because="another cell is being profiled", do="Profile one cell at a time."
            )
        self._fast_ranges = {phase: _RecordFunctionFast(f"accel::{phase}") for phase in PHASES}
        self._step_range = _RecordFunctionFast("accel.step")
        self._profiler_enabled = _profiler_enabled
        self._graphs = self._graphs_before = _compiled_graphs()
        self.patches.see_compiler()
        with ExitStack() as undo:  # taken over below: a patch that fails takes the earlier ones back
            install_patches(self, undo)
            self._exit = undo.pop_all()
        _active, self.thread, self.home_thread = self, get_ident(), get_ident()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        global _active
        self.thread = self.home_thread = -1
        _active = None
        self._exit.close()
        for phase in reversed(list(self.open)):
            self.end(phase)
        if self._awaits_step:
            self._step_instant()
        self._forget_quiet_loops()

    def _forget_quiet_loops(self) -> None:
        """Drop the marks of loops that held nothing of a step: fetching a parameter is not waiting for data."""
        for line in self.loop_lines.values():
            line.listen(self.events)  # a loop that was left by an exception, break or interrupt
        quiet = {number for number, line in self.loop_lines.items() if line.quiet}
        if quiet:
            self.marks[:] = [mark for mark in self.marks if mark.phase != "data" or mark.key not in quiet]

    def begin(self, phase: str, key: int) -> None:
        """Open a phase; the caller ends it in a `finally`, and has checked thread and compiler."""
        if not self.open and self.on_idle is not None:
            self.on_idle(self.boundaries)
        self.events += 1
        if not self.patches.can_see_compiler:
            self.patches.see_compiler()
        if self._awaits_step and phase in _BEGIN_A_STEP:
            self._step_instant()  # no optimizer came after that backward
        fast_range = None
        if self.ranges != "off":
            fast_range = self._fast_ranges[phase]
            fast_range.__enter__()
        self.open[phase] = (key, fast_range)
        self.marks.append(_new(Mark, (perf_counter_ns(), True, phase, key)))

    def end(self, phase: str) -> None:
        """Close a phase, and whatever an exception left open inside it."""
        now = perf_counter_ns()
        while phase in self.open:
            inner, (key, fast_range) = self.open.popitem()
            if fast_range is not None:
                fast_range.__exit__(None, None, None)
            self.marks.append(_new(Mark, (now, False, inner, key)))

    def note(self, kind: Kind, seen: Any) -> None:
        """Remember an object in use, once; the reference is strong, so that no other object gets its id meanwhile."""
        if (kind, id(seen)) not in self._seen_ids:
            self._seen_ids.add((kind, id(seen)))
            self.seen.append((kind, seen))

    def let_go(self) -> None:
        """Drop the strong references, once the run has been read."""
        self.seen, self.first_optimizer, self._seen_ids = [], None, set()

    def optimizer_stepped(self, optimizer: Any) -> None:
        """Count a boundary when the first optimizer that ever stepped has stepped."""
        if self.first_optimizer is None:
            self.first_optimizer = optimizer
            self.boundary_notes.clear()  # backward ends until now were no boundaries after all
            self._graphs = self._graphs_before
        if optimizer is self.first_optimizer:
            self._optimizer_steps += 1
            self._step_instant()
            self._note_boundary()

    def backward_ended(self) -> None:
        """Count a boundary of a cell without optimizers."""
        if self.first_optimizer is None:
            self._backward_ends += 1
            self._awaits_step = True
            self._note_boundary()

    def _step_instant(self) -> None:
        self._awaits_step = False
        if self.ranges != "off":
            self._step_range.__enter__()
            self._step_range.__exit__(None, None, None)

    def _note_boundary(self) -> None:
        graphs = _compiled_graphs()
        compiled, self._graphs = graphs != self._graphs, graphs
        profiled = self._profiler_enabled()
        self.boundary_notes.append(BoundaryNote(perf_counter_ns(), compiled, profiled, page_faults()))
        if self.thread != -1:
            self.step_loaders[self.batch_from] += 1
            self.batch_from = None
        if len(self.marks) > MOST_MARKS:
            self.thread = -1  # patches pass straight through from here; the optimizer hook goes on counting


def _compiled_graphs() -> int:
    """How many graphs dynamo has compiled so far in this process; 0 while it has not even been imported."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else int(dynamo.counters["stats"]["unique_graphs"])
