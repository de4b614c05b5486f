"""TraceProfile: the report on one trace file, the same as that of a live profile."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel.profiling.completeness import check_completeness
from accel.profiling.op_table import OpTable, read_op_table
from accel.profiling.profile import Profile
from accel.profiling.profile_notes import count_of
from accel.profiling.profile_options import ProfileOptions
from accel.profiling.profiled_events import ProfiledEvents, read_events
from accel.profiling.reading_device_activity import read_device_activity
from accel.profiling.step_timing import CELL_END, CELL_START
from accel.traces.damage import Damage
from accel.traces.event_batches import EventBatches
from accel.traces.event_table import EventTable
from accel.traces.foreign_phases import is_ours, profiler_steps, with_phases
from accel.traces.other_tools import refuse_other_tool, refuse_without_events
from accel.traces.trace_bytes import PIECE_BYTES, read_pieces
from accel.traces.trace_columns import read_trace_columns
from accel.traces.trace_source import TraceSource, read_source
from accel.traces.trace_timing import read_trace_timing

if TYPE_CHECKING:
    from accel.profiling.kineto_columns import KinetoColumns

TRACE_START, TRACE_END = "the start of the trace", "the end of the trace"
WARM_UP = 2  # steps, as in a live profile; none where the profiler's own schedule had begun later


@dataclass(frozen=True)
class TraceProfile(Profile):
    """A Profile that was read from a file; `source` says which, and whose.

    >>> report = accel.open_trace("trace.json.gz")
    >>> print(report)
    >>> report.damage               # what was wrong with the file, in sentences; empty for a sound one
    """

    source: TraceSource = field(default_factory=TraceSource)
    damage: tuple[str, ...] = ()


def read_trace(path: Path, *, piece_bytes: int = PIECE_BYTES) -> TraceProfile:
    """Read one trace, gzip or not, in bounded memory: some 10 MB, and about 400 bytes an event.

    AccelError when the file cannot be read or holds no work of torch; other damage is told in the notes.
    """
    damage = Damage()
    batches = EventBatches(read_pieces(path, damage, piece_bytes=piece_bytes), damage)
    table = EventTable(damage)
    for batch in batches:
        table.add(batch)
    if not batches.has_events:
        raise refuse_without_events(path, batches.header)
    arrays = table.arrays()
    if not len(arrays.name):
        raise refuse_other_tool(path, batches.header, table.categories, arrays.names, table.seen)
    columns = read_trace_columns(arrays, damage)
    events = _attributed(columns)
    if events is None:  # nothing but ranges round no work
        raise refuse_other_tool(path, batches.header, table.categories, arrays.names, table.seen)
    source = read_source(
        path, batches.header, read_bytes=batches.read_bytes, events=table.seen, is_ours=is_ours(columns)
    )
    return _profile(events, source, batches.header, damage)


def _attributed(columns: KinetoColumns) -> ProfiledEvents | None:
    steps = profiler_steps(columns)
    begins_late = len(steps) > 0 and "ProfilerStep#0" not in columns.names
    events = read_events(with_phases(columns), warmup=0 if begins_late else WARM_UP)
    return None if events is None else replace(events, found=events.found.renamed(_of_trace))


def _profile(
    events: ProfiledEvents, source: TraceSource, header: dict[str, Any], damage: Damage
) -> TraceProfile:
    table = read_op_table(events)
    return TraceProfile(
        timing=read_trace_timing(events),
        rows=table.rows,
        profiled_steps=table.steps if table.has_steps else 0,
        samples_per_s=None,
        accumulation=1,
        notes=(*damage.sentences, *_notes(table, source)),
        machine_line=str(source),
        versions=tuple(
            (name.removesuffix("_version"), str(header[name])) for name in sorted(header) if name.endswith("_version")
        ),
        options=ProfileOptions(
            steps=max(table.steps, 1), shapes=bool(header.get("record_shapes")), stacks=bool(header.get("with_stack")),
            memory=bool(header.get("profile_memory")),
        ),
        completeness=check_completeness(events),
        devices=read_device_activity(events),
        events=events,
        source=source,
        damage=damage.sentences,
    )  # fmt: skip


def _of_trace(name: str) -> str:
    """What a live profile calls the start and the end of the cell is that of the trace."""
    return name.replace(CELL_START, TRACE_START).replace(CELL_END, TRACE_END)


def _notes(table: OpTable, source: TraceSource) -> list[str]:
    notes = []
    if not table.has_steps:
        notes.append("No steps can be told apart in this trace: times are of the whole trace.")
    elif table.dropped_steps:
        notes.append(f"Left out: {count_of(table.dropped_steps, 'warm-up step')}.")
    notes.append("All of it ran under torch.profiler, whose cost is in the times; trust the shares.")
    if not source.is_ours:
        notes.append("Phases are told by torch's own names for them; forward includes the loss.")
    return notes
