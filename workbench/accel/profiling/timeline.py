"""The profiled steps as slices in rows, ready to be drawn: steps and phases, threads by nesting depth, GPU streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, TypeVar

from accel.profiling.attribution import MODULE, PHASE
from accel.profiling.kept_steps import is_step_mark, step_borders
from accel.profiling.kineto_columns import self_time
from accel.profiling.op_table import PYTHON, shown_name
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

Name = TypeVar("Name")
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
    `ops` has for each name the operation that it counts for in the op table, "" for none: brackets, kernels.
    `event` is the slice's row in the columns it was read from, -1 for steps and phases. `counted_ms` is the part that the
    tables are read from, without warm-up. `left_out` slices, none longer than `left_out_ms`, were too many to show.
    """

    rows: tuple[TimelineRow, ...]
    names: tuple[str, ...]
    ops: tuple[str, ...]
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
    names: _Numbers[tuple[str, str]] = _Numbers()
    phases: _Numbers[str] = _Numbers()
    modules: _Numbers[str] = _Numbers()
    start = np.array([band.start_ns for band in bands] + columns.start_ns[chosen].tolist(), dtype=np.int64)
    lasts = np.array([band.lasts_ns for band in bands] + columns.duration_ns[chosen].tolist(), dtype=np.int64)
    own = np.where(
        events.counts, self_time(columns.duration_ns, events.parent, events.counts), columns.self_ns
    )
    own = np.where(columns.is_nested, own, columns.duration_ns)[chosen]
    no_event = np.full(len(bands), -1)
    return EventTimeline(
        rows=tuple(_rows(bands, placed)),
        start_ms=(start - begin) / 1e6,
        duration_ms=lasts / 1e6,
        self_ms=np.concatenate([lasts[: len(bands)], own]) / 1e6,
        name=names.of([(band.label, band.op) for band in bands] + _named(events, chosen)),
        phase=phases.of([band.phase for band in bands] + found.phase[chosen].tolist()),
        module=modules.of([""] * len(bands) + found.module[chosen].tolist()),
        event=np.concatenate([no_event, chosen]),
        line=np.concatenate([no_event, np.full(len(chosen), -1) if events.line is None else events.line[chosen]]),
        lines=events.lines,
        names=tuple(name for name, _ in names.all), ops=tuple(op for _, op in names.all),
        phases=phases.all, modules=modules.all,
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

    @property
    def op(self) -> str:
        """What no operation covers of a gap is Python code there."""
        return PYTHON if " → " in self.phase else ""


class _Numbers(Generic[Name]):
    """Distinct names in the order they came, each with its number."""

    def __init__(self) -> None:
        self._number: dict[Name, int] = {}

    def of(self, names: list[Name]) -> Ints:
        import numpy as np

        number = self._number
        return np.array([number.setdefault(name, len(number)) for name in names], dtype=np.int64)

    @property
    def all(self) -> tuple[Name, ...]:
        return tuple(self._number)


def _chosen(duration_ns: Ints, shows: Flags, most: int) -> tuple[Ints, float]:
    """The events to show, and how long the longest of the others is."""
    import numpy as np

    candidates = np.flatnonzero(shows)
    if len(candidates) <= most:
        return candidates, 0.0
    by_length = candidates[np.argsort(-duration_ns[candidates], kind="stable")]
    return np.sort(by_length[:most]), float(duration_ns[by_length[most]]) / 1e6


def _named(events: ProfiledEvents, chosen: Ints) -> list[tuple[str, str]]:
    """Each event as it is shown, and its operation."""
    shown = [(_shown(name), shown_name(name)) for name in events.columns.names]
    numbers, counts = events.columns.name[chosen].tolist(), events.counts[chosen].tolist()
    return [
        shown[number] if is_counted else (shown[number][0], "")
        for number, is_counted in zip(numbers, counts, strict=True)
    ]


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
