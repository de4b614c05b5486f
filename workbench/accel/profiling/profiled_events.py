"""The events of the profiled steps with everything that was found out about each: what tables and views are read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.profiling.attribution import Attribution, attribute
from accel.profiling.device_work import launch_times
from accel.profiling.kept_steps import KeptSteps, is_step_mark, kept_steps
from accel.profiling.kineto_columns import KinetoColumns, self_time

if TYPE_CHECKING:
    from accel.profiling.kineto_columns import Flags, Ints
    from accel.workload.user_code import CodeLine


@dataclass(frozen=True, eq=False)
class ProfiledEvents:
    """One entry per event of `columns` in every array.

    `parent` is as in the columns, but past brackets (step instants, annotations round phases); `duration_ns` and
    `self_ns` only count what lies in the steps that were kept (of a GPU: what they launched); `counts` says which events
    are work of a CPU thread.
    `line` is each event's number in `lines`, the lines of the user's code, -1 for none; None without `--stacks`.
    """

    columns: KinetoColumns
    found: Attribution
    kept: KeptSteps
    parent: Ints
    duration_ns: Ints
    self_ns: Ints
    counts: Flags
    line: Ints | None = None
    lines: tuple[CodeLine, ...] = ()

    @property
    def begins_inside(self) -> Flags:
        """Which of the events that count begin in the steps that were kept."""
        starts = self.columns.start_ns
        inside: Flags = self.counts & (starts >= self.kept.from_ns) & (starts < self.kept.until_ns)
        return inside


def read_events(columns: KinetoColumns, *, warmup: int = 2) -> ProfiledEvents | None:
    """Attribute each event and cut off the warm-up steps; None when there are no events."""
    if not len(columns):
        return None
    found = attribute(columns)
    kept = kept_steps(columns, found.own_thread, warmup)
    is_span = _spans(columns, found)
    parent = _past_spans(columns.parent, is_span)
    duration = _clip(columns, kept)
    counts = columns.is_nested & ~is_span
    return ProfiledEvents(columns, found, kept, parent, duration, self_time(duration, parent, counts), counts)


def _spans(columns: KinetoColumns, found: Attribution) -> Flags:
    """Events that are only brackets: step instants, and annotations (the user's, Optimizer.step) around phases."""
    return is_step_mark(columns) | (columns.is_annotation & found.is_outside)


def _past_spans(parent: Ints, is_span: Flags) -> Ints:
    """Parents with the brackets taken out."""
    parent = parent.copy()
    while (through := (parent >= 0) & is_span[parent]).any():
        parent[through] = parent[parent[through]]
    return parent


def _clip(columns: KinetoColumns, kept: KeptSteps) -> Ints:
    """Durations, only as far as they lie in the steps that were kept; a GPU's work is whole or out, by its launch.

    A GPU that runs behind does the work of these steps after the CPU has left them.
    """
    import numpy as np

    ends = np.minimum(columns.start_ns + columns.duration_ns, kept.until_ns)
    clipped: Ints = np.maximum(ends - np.maximum(columns.start_ns, kept.from_ns), 0)
    on_device = columns.device >= 0
    if on_device.any():
        launched = launch_times(columns)[on_device]
        is_kept = (launched >= kept.from_ns) & (launched < kept.until_ns)
        clipped[on_device] = columns.duration_ns[on_device] * is_kept
    return clipped
