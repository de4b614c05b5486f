"""What the comparison of ranks needs of one rank's trace."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.profiling.device_work import finished_by_gpus
from accel.profiling.kept_steps import step_ends
from accel.traces.communication import RankCommunication, read_rank_communication

if TYPE_CHECKING:
    from accel.profiling.kineto_columns import Ints
    from accel.profiling.profiled_events import ProfiledEvents
    from accel.traces.trace_profile import TraceProfile


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
    return tuple(((np.diff(borders) - np.diff(talk.exposed_until(borders))) / 1e6).tolist())


def _own_phases(events: ProfiledEvents, talk: RankCommunication) -> dict[str, float]:
    import numpy as np

    kept, timeline = events.kept, events.found.timeline
    cuts = np.clip(np.append(timeline.starts, kept.until_ns), kept.from_ns, kept.until_ns)
    own = np.diff(cuts) - np.diff(talk.exposed_until(cuts))
    total: Counter[str] = Counter()
    for name, length in zip(timeline.names.tolist(), own.tolist(), strict=True):
        total[name] += length
    return {name: ns / kept.steps / 1e6 for name, ns in total.items() if ns}
