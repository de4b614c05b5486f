"""What the whole run of a cell showed apart from its steps: settings, page faults, unused graphs, starts of loaders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from accel.workload.forward_calls import calls_of_lines

if TYPE_CHECKING:
    from accel.workload.capture import Recording
    from accel.workload.phase_record import BoundaryNote, ForwardCall, Mark
    from accel.workload.run_conditions import RunConditions
    from accel.workload.workload import Workload


@dataclass(frozen=True)
class UnusedForward:
    """A line that calls a model with gradients on, and no backward follows: mostly validation without `no_grad()`.

    `ms` is of all `calls` together.
    """

    filename: str
    line: int
    function: str  # "<module>" for the cell's own level
    calls: int
    ms: float
    was_training: bool


@dataclass(frozen=True)
class LoaderStart:
    """How often a loader's workers started, and the time that starting and ending them added to ordinary fetches."""

    loader: str
    workers: int
    starts: int
    ms: float


@dataclass(frozen=True)
class WholeRun:
    """Facts about one run of a cell. `page_faults_per_step` is None where the system or the run does not tell.

    `step_loader` is the name of the loader that the steps take their batches from, "" where they take them from elsewhere.
    `late_compiling` are the steps after the first in which graphs were compiled: (number from 0, ms above the median).
    """

    conditions: RunConditions | None = None
    page_faults_per_step: float | None = None
    unused_forwards: tuple[UnusedForward, ...] = ()
    loader_starts: tuple[LoaderStart, ...] = ()
    late_compiling: tuple[tuple[int, float], ...] = ()
    step_loader: str | None = None  # None: not known, as in a trace, or where no step ends


def read_whole_run(recording: Recording, workload: Workload) -> WholeRun:
    """Read the facts from what was recorded; the profiled steps are left out of the page faults."""
    steps = recording.steps
    return WholeRun(
        conditions=recording.conditions,
        page_faults_per_step=_page_faults(recording.notes),
        unused_forwards=unused_forwards(recording.forward_calls, recording.marks),
        loader_starts=tuple(_loader_starts(recording, workload)),
        late_compiling=tuple(
            (number, max(0.0, step.duration_ns / 1e6 - steps.median_ms))
            for number, step in enumerate(steps.steps)
            if number and step.has_compiled
        ),
        step_loader=_step_loader(recording, workload),
    )


def _step_loader(recording: Recording, workload: Workload) -> str | None:
    if recording.steps.boundary == "none":
        return None  # which loader is noted as a step ends, and here only models are called
    if recording.steps.loader is None:
        return ""
    loaders = [(role.name, role.reference()) for role in workload.roles if role.kind == "loaders"]
    gone = [name for name, loader in loaders if loader is None]  # of a function that is over
    named = [name for name, loader in loaders if loader is not None and id(loader) == recording.steps.loader]
    return next(iter(named or (gone if len(gone) == 1 else [])), None if gone else "")


def _page_faults(notes: Sequence[BoundaryNote]) -> float | None:
    """Median between two boundaries of which neither saw the profiler, the compiler or a plan being applied."""
    quiet = [not (note.profiled or note.compiled or note.applied) for note in notes]
    taken = [
        after.page_faults - before.page_faults
        for before, after, free_before, free in zip(notes, notes[1:], quiet, quiet[1:], strict=False)
        if free_before and free and after.page_faults
    ]
    return float(median(taken)) if taken else None


def unused_forwards(calls: Sequence[ForwardCall], marks: Sequence[Mark]) -> tuple[UnusedForward, ...]:
    """Lines whose model calls recorded graphs that no backward used, most expensive first."""
    found = [
        UnusedForward(each.filename, each.line, each.function, each.unused, each.unused_ms, each.is_training)
        for each in calls_of_lines(calls, marks)
        if each.is_validation
    ]
    return tuple(sorted(found, key=lambda each: -each.ms))


def _loader_starts(recording: Recording, workload: Workload) -> Iterator[LoaderStart]:
    """A start is `DataLoader.__iter__` and what the first fetch takes longer than others; its mark has the key -id.

    The last fetch of an epoch finds no batch, and ends the workers.
    """
    spans = _data_spans(recording.marks)
    usual = {key: median(each.lasts for each in spans if each.key == key) for key in {s.key for s in spans}}
    for role in workload.roles:
        loader = role.reference()
        if role.kind != "loaders" or loader is None or loader.num_workers == 0:
            continue
        begun = [i for i, span in enumerate(spans) if span.key == -id(loader)]
        cost_ns = 0.0
        for i, until in zip(begun, [*begun[1:], len(spans)], strict=True):
            keys = [
                span.key for span in spans[i + 1 : until] if span.key >= 0
            ]  # of a loop's line, or the loader's id
            key = id(loader) if id(loader) in keys else next(iter(keys), None)
            fetches = [span for span in spans[i + 1 : until] if span.key == key]
            ends = {0, len(fetches) - 1} if fetches else set()
            cost_ns += spans[i].lasts + sum(max(0.0, fetches[k].lasts - usual[fetches[k].key]) for k in ends)
        yield LoaderStart(role.name, loader.num_workers, len(begun), cost_ns / 1e6)


@dataclass(frozen=True)
class _Span:
    key: int
    lasts: int


def _data_spans(marks: Sequence[Mark]) -> list[_Span]:
    """Fetches and starts in order; they do not nest."""
    begun: list[Mark] = []
    spans: list[_Span] = []
    for mark in marks:
        if mark.phase == "data" and mark.begins:
            begun.append(mark)
        elif mark.phase == "data" and begun:
            spans.append(_Span(mark.key, mark.time_ns - begun.pop().time_ns))
    return spans
