"""What the comparison of ranks needs of one rank's trace: its communication, and how much of that its own work hid."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.profiling.attribution import MODULE, PHASE, STEP
from accel.profiling.device_work import finished_by_gpus, is_communication
from accel.profiling.intervals import Intervals, covered_until, overlap, union
from accel.profiling.kept_steps import step_ends
from accel.profiling.kineto_columns import is_of

if TYPE_CHECKING:
    from accel.profiling.kineto_columns import Flags, Ints, KinetoColumns
    from accel.profiling.profiled_events import ProfiledEvents
    from accel.traces.trace_profile import TraceProfile

# Annotations of the threads that talk on the CPU. NCCL's are left out: they only say when a kernel was launched.
ON_CPU_THREADS = re.compile(r"(?:gloo|mpi|ucc):\w+")


@dataclass(frozen=True, eq=False)
class RankCommunication:
    """Calls by name, each (begin, end) in ns in order of time; and the time in which the rank only waited for them."""

    calls: dict[str, tuple[Ints, Ints]]
    total: Intervals
    exposed: Intervals
    is_on_gpu: bool
    compute_ns: int  # of kernels on the GPU that do no communication; 0 without a GPU

    @property
    def overlap_share(self) -> float:
        """The part of communication that overlapped with other work, 0 to 1; 0 when there is none."""
        return 1 - self.exposed.length / self.total.length if self.total.length else 0.0

    def exposed_until(self, times_ns: Ints) -> Ints:
        """How much of the waiting lies before each time."""
        return covered_until(self.exposed, times_ns)


def read_rank_communication(events: ProfiledEvents) -> RankCommunication:
    """Communication of the kept steps: NCCL's kernels that they launched, or what the CPU's own threads do for gloo.

    >>> read_rank_communication(events).overlap_share
    0.62
    """
    import numpy as np

    columns = events.columns
    is_talk = _is_talk(columns)
    on_device = columns.device >= 0
    from_ns, until_ns = events.kept.from_ns, events.kept.until_ns
    if is_on_gpu := bool((is_talk & on_device).any()):
        from_ns, until_ns = finished_by_gpus(columns, events.kept, np.array([from_ns, until_ns])).tolist()
    works = (on_device if is_on_gpu else _is_work(events)) & ~is_talk
    begins, ends = columns.start_ns, columns.start_ns + columns.duration_ns
    low, high = np.clip(begins, from_ns, until_ns), np.clip(ends, from_ns, until_ns)
    total, busy = union(low[is_talk], high[is_talk]), union(low[works], high[works])
    return RankCommunication(
        calls=_calls(columns, is_talk & (begins >= from_ns) & (ends <= until_ns)),
        total=total,
        exposed=without(total, busy),
        is_on_gpu=is_on_gpu,
        compute_ns=busy.length if on_device.any() else 0,
    )


def without(one: Intervals, other: Intervals) -> Intervals:
    """What the first covers and the second does not.

    >>> without(Intervals(np.array([0]), np.array([10])), Intervals(np.array([2]), np.array([4])))
    Intervals(begins=array([0, 4]), ends=array([ 2, 10]))
    """
    import numpy as np

    if not len(one.begins) or not overlap(one, other):
        return one
    edges = np.unique(np.concatenate([one.begins, one.ends, other.begins, other.ends]))
    begins, ends = edges[:-1], edges[1:]
    return union(*(side[_within(one, begins) & ~_within(other, begins)] for side in (begins, ends)))


def _within(intervals: Intervals, times: Ints) -> Flags:
    import numpy as np

    if not len(intervals.begins):
        return np.zeros(len(times), dtype=np.bool_)
    place = np.searchsorted(intervals.begins, times, side="right") - 1
    inside: Flags = (place >= 0) & (times < intervals.ends[place])
    return inside


def _is_talk(columns: KinetoColumns) -> Flags:
    import numpy as np

    kernels = np.array([is_communication(name) for name in columns.names], dtype=np.bool_)[columns.name]
    threads = np.array([bool(ON_CPU_THREADS.match(name)) for name in columns.names], dtype=np.bool_)[
        columns.name
    ]
    found: Flags = kernels & is_of(columns.kind, columns.kinds, {"kernel"}) | threads & columns.is_nested
    return found


def _is_work(events: ProfiledEvents) -> Flags:
    """Operations of the CPU, without the ranges round them, which cover waiting too."""
    import numpy as np

    names = events.columns.names
    is_range = np.array([name.startswith((PHASE, MODULE, STEP)) for name in names], dtype=np.bool_)
    work: Flags = events.counts & ~is_range[events.columns.name]
    return work


def _calls(columns: KinetoColumns, which: Flags) -> dict[str, tuple[Ints, Ints]]:
    import numpy as np

    rows = np.flatnonzero(which)
    rows = rows[np.argsort(columns.start_ns[rows], kind="stable")]
    begins, ends, name = (
        columns.start_ns[rows],
        (columns.start_ns + columns.duration_ns)[rows],
        columns.name[rows],
    )
    return {columns.names[i]: (begins[name == i], ends[name == i]) for i in np.unique(name).tolist()}


@dataclass(frozen=True, eq=False)
class RankFacts:
    """Times in ms, per kept step. Own work is what is left of a step without the time in which the rank only waited for others.

    `own_phases` is own work by phase; `calls` are (begin, end) in ns since 1970 as this rank's clock has it.
    """

    rank: int
    profile: TraceProfile
    own_ms: tuple[float, ...]
    own_phases: dict[str, float]
    gpu_ms: float
    communication_ms: float
    exposed_ms: float
    overlap_share: float
    calls: dict[str, tuple[Ints, Ints]]


def read_rank(rank: int, profile: TraceProfile) -> RankFacts:
    """Take the facts from a report that still has its events."""
    from dataclasses import replace

    events = profile.events
    assert events is not None
    talk, steps = read_rank_communication(events), events.kept.steps
    base = profile.source.base_ns
    return RankFacts(
        rank=rank,
        profile=replace(profile, events=None),  # a folder of ranks may hold more events than memory does
        own_ms=_own_steps(events, talk),
        own_phases=_own_phases(events, talk),
        gpu_ms=talk.compute_ns / steps / 1e6,
        communication_ms=talk.total.length / steps / 1e6,
        exposed_ms=talk.exposed.length / steps / 1e6,
        overlap_share=talk.overlap_share,
        calls={name: (begins + base, ends + base) for name, (begins, ends) in talk.calls.items()},
    )


def _own_steps(events: ProfiledEvents, talk: RankCommunication) -> tuple[float, ...]:
    import numpy as np

    kept = events.kept
    ends = step_ends(events.columns, events.found.own_thread) if kept.has_steps else np.array([kept.until_ns])
    borders = np.append(kept.from_ns, ends[(ends > kept.from_ns) & (ends <= kept.until_ns)])
    if talk.is_on_gpu:
        borders = finished_by_gpus(events.columns, kept, borders)
    own_ms = ((np.diff(borders) - np.diff(talk.exposed_until(borders))) / 1e6).tolist()
    return tuple(own_ms) or (0.0,)  # steps of no length


def _own_phases(events: ProfiledEvents, talk: RankCommunication) -> dict[str, float]:
    import numpy as np

    kept, timeline = events.kept, events.found.timeline
    cuts = np.clip(np.append(timeline.starts, kept.until_ns), kept.from_ns, kept.until_ns)
    own = np.diff(cuts) - np.diff(talk.exposed_until(cuts))
    total: Counter[str] = Counter()
    for name, length in zip(timeline.names.tolist(), own.tolist(), strict=True):
        total[name] += length
    return {name: ns / kept.steps / 1e6 for name, ns in total.items() if ns}
