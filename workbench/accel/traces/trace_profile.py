"""TraceProfile: the report on one trace file, the same as that of a live profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError
from accel.machine.memory import read_memory
from accel.profiling.completeness import Completeness, check_completeness
from accel.profiling.kineto_columns import ON_CPU, is_of
from accel.profiling.op_table import PYTHON, OpRow, OpTable, read_op_table
from accel.profiling.profile import Profile
from accel.profiling.profile_options import ProfileOptions
from accel.profiling.profiled_events import ProfiledEvents, read_events
from accel.profiling.reading_device_activity import read_device_activity
from accel.profiling.step_timing import CELL_END, CELL_START
from accel.shown_text import one_line
from accel.traces.damage import Damage
from accel.traces.event_batches import EventBatches
from accel.traces.event_table import LEAST_SHARE, PROFILER_STEP, EventTable, processes_of
from accel.traces.foreign_phases import is_ours, profiler_steps, with_phases
from accel.traces.trace_bytes import PIECE_BYTES, read_pieces
from accel.traces.trace_columns import read_trace_columns
from accel.traces.trace_source import TraceSource, read_source, refuse_other_tool, refuse_without_events
from accel.traces.trace_timing import read_trace_timing
from accel.units import counted, percent, size

if TYPE_CHECKING:
    from accel.profiling.kineto_columns import KinetoColumns

# What a live profile calls the start and the end of the cell, of a trace as a whole and of one that marks its steps.
OF_TRACE = {CELL_START: "the start of the trace", CELL_END: "the end of the trace"}
OF_STEPS = {CELL_START: "the start of the first step", CELL_END: "the end of the last step"}
# What is lost of a GPU's work looks like idle time, and what is lost of an operator's time like Python code.
LOST = (
    "Before CUDA 13.1, CUPTI can lose or shift GPU events in every profile after the first one in a process, and its range "
    "profiler records counters instead of kernels. Record the trace in a new process, without counters. CPU times are correct."
)
DAMAGED = Completeness(
    is_complete=False,
    reasons=("the file has lost events",),
    remedy="The times here are of what could be read; GPU shares and findings would be wrong and are left out. Copy the file "
    "again, or export it again once the profiler has stopped.",
    is_of_file=True,
)
BYTES_AN_EVENT = 400  # at the peak, while the report is made
COPIES_OF_A_NAME = 3  # as it was read, as it may be shown, and as a report puts it
WARM_UP = 2  # steps, as in a live profile; none where the profiler's own schedule had begun later


@dataclass(frozen=True)
class TraceProfile(Profile):
    """A Profile that was read from a file; `source` says which, and whose.

    >>> report = accel.open_trace("trace.json.gz")
    >>> print(report)
    >>> report.damage               # what was wrong with the file, and what of it was left out, in sentences
    """

    source: TraceSource = field(default_factory=TraceSource)
    damage: tuple[str, ...] = ()
    begins_late: bool = False  # its steps are numbered and do not include the run's first


def read_trace(path: Path, *, piece_bytes: int = PIECE_BYTES, free_bytes: int | None = None) -> TraceProfile:
    """Read one process's trace; if the file holds several, the first (see `read_traces`).

    >>> print(read_trace(Path("trace.json.gz")))
    """
    return read_traces(path, piece_bytes=piece_bytes, free_bytes=free_bytes)[0]


def read_traces(
    path: Path, *, piece_bytes: int = PIECE_BYTES, free_bytes: int | None = None
) -> list[TraceProfile]:
    """Read a file, gzip or not, in bounded memory: some 10 MB, about 400 bytes an event, and what its names take.

    A report for each process in it: one, unless a tool merged the traces of several.
    AccelError when the file cannot be read, holds no work of torch, or so much that the free memory (default: what
    this process may still take) would not do; the notes report other damage.
    """
    damage = Damage()
    free_bytes = read_memory().available_bytes if free_bytes is None else free_bytes
    batches = EventBatches(read_pieces(path, damage, piece_bytes=piece_bytes), damage)
    table = EventTable(damage)
    for batch in batches:
        table.add(batch)
        needed_bytes = BYTES_AN_EVENT * table.seen + COPIES_OF_A_NAME * table.name_bytes
        if needed_bytes > free_bytes > 0:  # 0 where the system does not tell
            raise _too_large(path, table, free_bytes)
    if not batches.has_events:
        raise refuse_without_events(path, batches.header)
    arrays = table.arrays()
    if not len(arrays.name):
        raise refuse_other_tool(path, batches.header, table.categories, arrays.names, table.seen)
    found: list[TraceProfile] = []
    parts, others = processes_of(arrays)
    if others:
        damage.remarks.append(
            f"Left out: {counted(others, 'process')} that did less than {percent(LEAST_SHARE)} of the busiest one's work."
        )
    for process, part in parts:
        own = damage.of_process(is_first=not found) if process else damage
        columns = read_trace_columns(part, own)
        if (events := _attributed(columns)) is not None:
            source = read_source(
                path, batches.header, read_bytes=batches.read_bytes, events=len(part.name) if process else table.seen,
                is_ours=is_ours(columns), process=process,
            )  # fmt: skip
            found.append(_profile(events, source, batches.header, own, columns))
    if not found:  # nothing but ranges round no work
        raise refuse_other_tool(path, batches.header, table.categories, arrays.names, table.seen)
    return found


def _too_large(path: Path, table: EventTable, free_bytes: int) -> AccelError:
    free, events = size(free_bytes), f"{table.seen:,} events with {size(table.name_bytes)} of different names"
    return AccelError(
        f"open {path}",
        because=f"it has more than {events}, for which {free} of free memory are too little",
        do="Record fewer steps, as with schedule(wait=1, warmup=1, active=3), or open it where more memory is free.",
    )


def _begins_late(columns: KinetoColumns) -> bool:
    return len(profiler_steps(columns)) > 0 and f"{PROFILER_STEP}0" not in columns.names


def _attributed(columns: KinetoColumns) -> ProfiledEvents | None:
    steps = profiler_steps(columns)
    events = read_events(with_phases(columns), warmup=0 if _begins_late(columns) else WARM_UP)
    if events is None:
        return None
    words = OF_STEPS if len(steps) else OF_TRACE
    return replace(events, found=events.found.renamed(lambda name: _renamed(name, words)))


def _profile(
    events: ProfiledEvents,
    source: TraceSource,
    header: dict[str, Any],
    damage: Damage,
    columns: KinetoColumns,
) -> TraceProfile:
    """The report; `columns` are the trace's own, without the phases that accel found."""
    table = read_op_table(events)
    has_cpu = bool((is_of(columns.kind, columns.kinds, ON_CPU) & ~columns.is_annotation).any())
    return TraceProfile(
        timing=read_trace_timing(events),
        rows=table.rows if has_cpu else _without_python(table.rows),
        profiled_steps=table.steps if table.has_steps else 0,
        accumulation=1,
        notes=(*damage.sentences, *_notes(table, source, has_cpu=has_cpu, marks=len(profiler_steps(columns)))),
        machine_line=str(source),
        versions=_versions(header),
        options=ProfileOptions(
            steps=max(table.steps, 1), shapes=bool(header.get("record_shapes")), stacks=bool(header.get("with_stack")),
            memory=bool(header.get("profile_memory")),
        ),
        completeness=DAMAGED if damage.is_loss else replace(check_completeness(events), remedy=LOST),
        devices=() if damage.is_loss else read_device_activity(events),
        events=events,
        source=source,
        damage=damage.sentences,
        begins_late=_begins_late(columns),
    )  # fmt: skip


def _without_python(rows: Sequence[OpRow]) -> tuple[OpRow, ...]:
    """Drop Python rows: without CPU events, the time between runtime calls may not be Python's."""
    kept = [row for row in rows if row.op != PYTHON]
    total_ms = sum(row.self_ms for row in kept)
    return tuple(replace(row, share=row.self_ms / total_ms if total_ms else 0.0) for row in kept)


def _versions(header: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    named = [name for name in sorted(header) if name.endswith("_version")]
    return tuple(
        (one_line(name.removesuffix("_version"), 100), one_line(str(header[name]), 100)) for name in named
    )


def _renamed(name: str, words: dict[str, str]) -> str:
    for live, said in words.items():
        name = name.replace(live, said)
    return name


def _notes(table: OpTable, source: TraceSource, *, has_cpu: bool, marks: int) -> list[str]:
    notes = []
    if not table.has_steps:
        notes.append(
            "accel found no steps in this trace, so times are totals for the whole trace and there is no advice."
        )
    elif table.dropped_steps:
        notes.append(f"Left out: {counted(table.dropped_steps, 'warm-up step')}.")
    if table.has_steps and (idle := marks - table.steps - table.dropped_steps) > 0:
        notes.append(f"Left out: {counted(idle, 'ProfilerStep')} in which no optimizer ran.")
    notes.append("All of it ran under torch.profiler, whose cost is in the times; trust the shares.")
    if not has_cpu:
        notes.append(
            "The trace has no CPU operations, so phases are unknown. Record ProfilerActivity.CPU too."
        )
    elif not source.is_ours:
        notes.append("Phases are found by torch's own names for them; forward includes the loss.")
    return notes
