"""The record of a run by phases: when each began and ended, what was seen in use, and where the steps end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from accel.hooks.attribute_patches import AttributePatches
from accel.workload.applied_time import applied_ns
from accel.workload.gradient_watch import GradientWatch
from accel.workload.loop_record import LoopLine, LoopRecord
from accel.workload.namespace_reads import attribute_of
from accel.workload.page_faults import page_faults
from accel.workload.replica import Kind

if TYPE_CHECKING:
    from types import FrameType

    from accel.workload.call_inputs import CallInputs
    from accel.workload.run_conditions import RunConditions

PHASES = (
    "data",
    "copy",
    "forward",
    "loss",
    "backward",
    "recompute",
    "zero_grad",
    "optimizer",
    "closure",
    "scaler",
)
_BEGIN_A_STEP = ("data", "copy", "forward")
MOST_MARKS = 1_000_000  # about 100 MB; a day of training must not fill the memory
_new = tuple.__new__  # half the time of Mark(...), which counts twelve times a step


class Mark(NamedTuple):
    """One end of a phase; `key` tells objects of a phase apart: an id, or the line of a loop."""

    time_ns: int
    begins: bool
    phase: str
    key: int


class BackwardPass(NamedTuple):
    """One backward pass; `place` is the line that asked for it, `adds` whether it added to the gradients of parameters."""

    time_ns: int
    place: tuple[str, int]
    adds: bool


class BoundaryNote(NamedTuple):
    """What was going on when a step ended: were graphs compiled in it, or a plan applied to what the cell built, was
    torch.profiler running, page faults so far.
    """

    time_ns: int
    compiled: bool
    profiled: bool
    page_faults: int = 0
    applied: bool = False
    nodes: int = 0  # that autograd has recorded so far


class ForwardCall(NamedTuple):
    """One outermost call of a model; times as in the marks. `nodes` counts what autograd recorded: 0 under no_grad()."""

    begin_ns: int
    end_ns: int
    nodes: int
    is_training: bool
    filename: str
    line: int
    function: str
    model: int = 0  # id of the object
    samples: int = 0  # first dimension of the first tensor it was given


class Lead(NamedTuple):
    """An optimizer whose steps were the training's until one built later stepped, and what was counted by then."""

    optimizer: Any
    since: int
    steps: int
    step_ends: int
    boundary_notes: int


class PhaseRecord:
    """What the patches report to: a flat list of marks, the objects seen in use, and the count of step boundaries.

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
        self.used_calls: set[int] = set()  # when those began whose graph a backward went through
        self.passes: list[BackwardPass] = []
        self.step_ends: list[int] = []  # when an optimizer's step ended a step of the training
        self.loops = LoopRecord()
        self.conditions: RunConditions | None = None  # read when the first backward begins
        # (device, format) of those under which autograd recorded something
        self.autocasts: set[tuple[str, str]] = set()
        self.clears_to_zeros = False  # an optimizer's zero_grad(set_to_none=False) was called
        self.gradients = GradientWatch()
        self.nodes_before = 0  # nodes that autograd had recorded when the run began
        self.loader_workers = 0  # the most worker processes of a loader that was read
        self.fetches_in_threads = False  # a thread other than the training's read a loader
        self.steps_at_passes: list[int] = []  # finished steps, each time a loader's iterator was created
        self.first_optimizer: Any = (
            None  # whose steps are the training's: the first that steps, until one built later does
        )
        self.inputs: dict[int, CallInputs] = {}  # id of a model → what it was first called with
        self.built: dict[int, int] = {}  # id of what was constructed during the run → steps until then
        self.filename = ""  # of the cell that runs, if it is one
        self.built_on: dict[int, tuple[int, ...]] = {}  # id of the same → lines of the cell, innermost first
        self.used_on: dict[
            int, tuple[int, ...]
        ] = {}  # id of what was seen → the same, when it was first used
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
        self._fast_ranges: dict[str, Any] = {}  # of phases, for torch.profiler
        self._step_range: Any = None
        self._profiler_enabled: Callable[[], bool] = lambda: False
        self._nodes_recorded: Callable[[], int] = lambda: 0
        self._seen_ids: set[tuple[str, int]] = set()
        self._optimizer_steps = self._backward_ends = self._graphs = self._graphs_before = (
            self._applied_ns
        ) = 0
        self._ever_counted = 0  # optimizer's steps, those of probes included
        self._leads_since = 0  # as many of them before the first one of `first_optimizer`
        self._former_leads: list[Lead] = []
        self._most_of_a_probe = 0  # steps of an optimizer that the former leader took the lead back from
        self._awaits_step = False  # a backward ended, and no optimizer has been seen yet

    @property
    def may_fetch(self) -> bool:
        """Whether a loop taking its next item now fetches data: not inside a phase, an optimizer's closure excepted."""
        innermost = next(reversed(self.open), "closure")
        return get_ident() == self.thread and innermost in ("optimizer", "closure")

    @property
    def boundaries(self) -> int:
        """Steps of the optimizer that counts; ends of backward while there is none."""
        return self._backward_ends if self.first_optimizer is None else self._optimizer_steps

    def _forget_quiet_loops(self) -> None:
        """Drop the marks of loops that held nothing of a step: fetching a parameter is not waiting for data."""
        for line in self.loop_lines.values():
            line.listen(self.events)  # a loop that was left by an exception, break or interrupt
        quiet = {number for number, line in self.loop_lines.items() if line.quiet}
        if quiet:
            self.loops.forget(quiet)
            self.marks[:] = [mark for mark in self.marks if mark.phase != "data" or mark.key not in quiet]

    def begin(self, phase: str, key: int) -> int:
        """Open a phase and return the time in ns; the caller checks thread and compiler, and ends the phase in a `finally`."""
        if self.on_idle is not None and not self.open:
            self.on_idle(self.boundaries)
        self.events += 1
        if not self.patches.can_see_compiler:
            self.patches.see_compiler()
        if self._awaits_step and phase in _BEGIN_A_STEP:
            self._step_instant()  # no optimizer came after that backward
        fast_range = None
        if self.ranges != "off" and get_ident() == self.thread:
            fast_range = self._fast_ranges[phase]
            fast_range.__enter__()
        self.open[phase] = (key, fast_range)
        now = perf_counter_ns()
        self.marks.append(_new(Mark, (now, True, phase, key)))
        return now

    def end(self, phase: str) -> int:
        """Close a phase and everything that an exception left open inside it, and return the time in ns."""
        now, opened = perf_counter_ns(), self.open
        while phase in opened:
            inner, (key, fast_range) = opened.popitem()
            if fast_range is not None:
                fast_range.__exit__(None, None, None)
            self.marks.append(_new(Mark, (now, False, inner, key)))
        return now

    def note_built(self, built: Any) -> None:
        """Something is constructed: by the cell, and after how many steps."""
        self.built[id(built)] = self._ever_counted
        self.built_on[id(built)] = self._lines()

    def _lines(self) -> tuple[int, ...]:
        return tuple(_lines_of(self.filename)) if self.filename else ()

    def note(self, kind: Kind, seen: Any) -> None:
        """Remember an object in use, once; the reference is strong, so that no other object gets its id meanwhile."""
        if (kind, id(seen)) not in self._seen_ids:
            self._seen_ids.add((kind, id(seen)))
            self.seen.append((kind, seen))
            self.used_on.setdefault(id(seen), self._lines())

    def note_pass(self, loader: Any) -> None:
        """A loader is about to be read, perhaps by worker processes."""
        self.steps_at_passes.append(self.boundaries)
        count = attribute_of(loader, "num_workers")
        self.loader_workers = max(self.loader_workers, count if isinstance(count, int) else 0)

    def let_go(self) -> None:
        """Drop the strong references, once the run has been read."""
        self.seen, self.first_optimizer, self._former_leads, self._seen_ids = [], None, [], set()
        self.gradients.let_go()

    def optimizer_stepped(self, optimizer: Any) -> None:
        """Count a boundary when the optimizer that counts has stepped: the first, or the next fold's own.

        One that is built later leads until the former steps again: then it was a probe's, and its steps were none.
        """
        self._take_lead_back(optimizer)
        if self.first_optimizer is None:
            self.first_optimizer = optimizer
            self.boundary_notes.clear()  # backward ends until now were no boundaries after all
            self._graphs = self._graphs_before
        elif self.built.get(id(optimizer), 0) > self._leads_since:
            self._end_last_probe()
            counted = self._optimizer_steps, len(self.step_ends), len(self.boundary_notes)
            self._former_leads.append(Lead(self.first_optimizer, self._leads_since, *counted))
            self.first_optimizer, self._leads_since = optimizer, self._ever_counted
        if optimizer is self.first_optimizer:
            self._optimizer_steps += 1
            self._ever_counted += 1
            if self.thread != -1:
                self.step_ends.append(self.marks[-1].time_ns)
            self._step_instant()
            self._note_boundary()

    def _take_lead_back(self, optimizer: Any) -> None:
        for index, lead in enumerate(self._former_leads):
            if lead.optimizer is optimizer:
                self._most_of_a_probe = max(self._most_of_a_probe, self._optimizer_steps - lead.steps)
                del self._former_leads[index:], self.step_ends[lead.step_ends :]
                del self.boundary_notes[lead.boundary_notes :]
                self._optimizer_steps = lead.steps
                self.first_optimizer, self._leads_since = optimizer, lead.since
                return

    def _end_last_probe(self) -> None:
        """The probe after the last epoch, which nothing follows: known by its length."""
        if (
            self._former_leads
            and self._optimizer_steps - self._former_leads[-1].steps <= self._most_of_a_probe
        ):
            self._take_lead_back(self._former_leads[-1].optimizer)

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
        graphs, applied = compiled_graphs(), applied_ns()
        self.boundary_notes.append(
            BoundaryNote(
                perf_counter_ns(), graphs != self._graphs, self._profiler_enabled(), page_faults(),
                applied != self._applied_ns, self._nodes_recorded(),
            )
        )  # fmt: skip
        self._graphs, self._applied_ns = graphs, applied
        if len(self.marks) > MOST_MARKS:
            self.thread = -1  # patches pass straight through from here; the optimizer hook goes on counting


def compiled_graphs() -> int:
    """How many graphs dynamo has compiled so far in this process; 0 while it has not even been imported."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else int(dynamo.counters["stats"]["unique_graphs"])


def _lines_of(filename: str) -> Iterator[int]:
    """The lines of a file that are running now, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == filename:
            yield frame.f_lineno
        frame = frame.f_back
