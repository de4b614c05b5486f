"""The profiled steps as slices in rows, ready to be drawn: steps and phases, threads by nesting depth, GPU streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from accel.profiling.attribution import MODULE, PHASE
from accel.profiling.kept_steps import is_step_mark, step_borders
from accel.profiling.phase_words import phase_words
from accel.profiling.timeline_rows import RowKind, places

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accel.profiling.kineto_columns import Flags, Ints
    from accel.profiling.profiled_events import ProfiledEvents
    from accel.profiling.timeline_rows import Places
    from accel.workload.user_code import CodeLine

    Floats = NDArray[np.float64]

MOST_SLICES = 200_000  # 8 MB to the page; of more, the longest are kept


class Lane(NamedTuple):
    """A row's slices of one nesting depth: those from `first` up to `end`, in order of time."""

    first: int
    end: int


@dataclass(frozen=True)
class TimelineRow:
    """Steps, phases, a thread or a stream; its lanes lie under each other, the outermost first."""

    label: str
    kind: RowKind | Literal["steps", "phases"]
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, eq=False)
class EventTimeline:
    """Slices, one entry each in every array; times in ms since the first one.

    >>> timeline = read_timeline(profile.events)
    >>> timeline.names[timeline.name[0]], timeline.start_ms[0], timeline.duration_ms[0]
    ('Step 1 (warm-up)', 0.0, 12.31)

    `name`, `phase`, `module` and `line` are numbers of entries in `names`, `phases`, `modules` and `lines` (-1: no line);
    `event` is the slice's row in the columns it was read from, -1 for steps and phases. `counted_ms` is the part that the
    tables are read from, without warm-up. `left_out` slices, none longer than `left_out_ms`, were too many to show.
    """

    rows: tuple[TimelineRow, ...]
    names: tuple[str, ...]
    phases: tuple[str, ...]
    modules: tuple[str, ...]
    start_ms: Floats
    duration_ms: Floats
    self_ms: Floats
    name: Ints
    phase: Ints
    module: Ints
    event: Ints
    line: Ints
    lines: tuple[CodeLine, ...]
    counted_ms: tuple[float, float]
    left_out: int = 0
    left_out_ms: float = 0.0

    def __len__(self) -> int:
        return len(self.name)


def read_timeline(events: ProfiledEvents, *, most: int = MOST_SLICES) -> EventTimeline:
    """Lay the events of a profile out; of more than `most`, the longest."""
    import numpy as np

    columns, found = events.columns, events.found
    chosen, left_out_ms = _chosen(columns.duration_ns, ~is_step_mark(columns), most)
    placed = places(events, chosen)
    begin, end = int(columns.start_ns.min()), int((columns.start_ns + columns.duration_ns).max())
    bands = [*_steps(events, begin, end), *_phases(events, begin, end)]
    chosen = chosen[placed.order]
    names = _Numbers()
    phases, modules = _Numbers(), _Numbers()
    shown = [_shown(name) for name in columns.names]
    start = np.array([band.start_ns for band in bands] + columns.start_ns[chosen].tolist(), dtype=np.int64)
    lasts = np.array([band.lasts_ns for band in bands] + columns.duration_ns[chosen].tolist(), dtype=np.int64)
    own = columns.self_ns[chosen]
    no_event = np.full(len(bands), -1)
    return EventTimeline(
        rows=tuple(_rows(bands, placed)),
        start_ms=(start - begin) / 1e6,
        duration_ms=lasts / 1e6,
        self_ms=np.concatenate([lasts[: len(bands)], np.where(columns.is_nested[chosen], own, lasts[len(bands) :])]) / 1e6,
        name=names.of([band.label for band in bands] + [shown[i] for i in columns.name[chosen].tolist()]),
        phase=phases.of([band.phase for band in bands] + found.phase[chosen].tolist()),
        module=modules.of([""] * len(bands) + found.module[chosen].tolist()),
        event=np.concatenate([no_event, chosen]),
        line=np.concatenate([no_event, np.full(len(chosen), -1) if events.line is None else events.line[chosen]]),
        lines=events.lines,
        names=names.all, phases=phases.all, modules=modules.all,
        counted_ms=((events.kept.from_ns - begin) / 1e6, (events.kept.until_ns - begin) / 1e6),
        left_out=int((~is_step_mark(columns)).sum()) - len(chosen),
        left_out_ms=left_out_ms,
    )  # fmt: skip


class _Band(NamedTuple):
    """A slice that is no event: a step, or a phase of the training thread."""

    kind: Literal["steps", "phases"]
    label: str
    phase: str
    start_ns: int
    lasts_ns: int


class _Numbers:
    """Distinct names in the order they came, each with its number."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}

    def of(self, names: list[str]) -> Ints:
        import numpy as np

        number = self._number
        return np.array([number.setdefault(str(name), len(number)) for name in names], dtype=np.int64)

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(self._number)


def _chosen(duration_ns: Ints, shows: Flags, most: int) -> tuple[Ints, float]:
    """The events to show, and how long the longest of the others is."""
    import numpy as np

    candidates = np.flatnonzero(shows)
    if len(candidates) <= most:
        return candidates, 0.0
    by_length = candidates[np.argsort(-duration_ns[candidates], kind="stable")]
    return np.sort(by_length[:most]), float(duration_ns[by_length[most]]) / 1e6


def _shown(name: str) -> str:
    """Our ranges in words: a phase as the report says it, a module by its name."""
    if name.startswith(PHASE):
        return phase_words(name[len(PHASE) :])
    return f"Module {name[len(MODULE) :]}" if name.startswith(MODULE) else name


def _steps(events: ProfiledEvents, begin: int, end: int) -> Iterator[_Band]:
    """Each profiled step from the end of the one before; without any, no band."""
    borders = step_borders(events.columns, events.found.own_thread).tolist()
    for number, (since, until) in enumerate(pairwise(borders), 1):
        said = f"Step {number} (warm-up)" if number <= events.kept.dropped else f"Step {number}"
        yield _Band("steps", said, "", since, until - since)


def _phases(events: ProfiledEvents, begin: int, end: int) -> Iterator[_Band]:
    """What the training thread was doing, phases and the gaps between them."""
    timeline = events.found.timeline
    starts = timeline.starts.clip(begin, end).tolist()
    for name, since, until in zip(timeline.names.tolist(), starts, [*starts[1:], end], strict=True):
        if until > since:
            yield _Band("phases", phase_words(name), name, since, until - since)


def _rows(bands: list[_Band], placed: Places) -> Iterator[TimelineRow]:
    first = 0
    for kind, label in (("steps", "Steps"), ("phases", "Phases")):
        if count := sum(band.kind == kind for band in bands):
            yield TimelineRow(label, kind, (Lane(first, first + count),))  # type: ignore[arg-type]
            first += count
    for row in placed.rows:
        lanes = []
        for count in row.counts:
            lanes.append(Lane(first, first + count))
            first += count
        yield TimelineRow(row.label, row.kind, tuple(lanes))
