"""Communication between ranks in a trace: how long, how much of it nothing else ran beside, after which backward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.profiling.attribution import PHASE
from accel.profiling.intervals import Intervals, overlap, union

if TYPE_CHECKING:
    from accel.profiling.kineto_columns import Flags
    from accel.profiling.profiled_events import ProfiledEvents

COLLECTIVES = ("c10d::", "gloo:", "nccl:", "mpi:", "ucc:", "ccl:", "xccl:")
REDUCTIONS = ("c10d::allreduce", "c10d::reduce_scatter", "c10d::_reduce_scatter")
REDUCER = ("torch::distributed::reducer", "torch.distributed.ddp.reducer")
COMPUTING = ("aten::", "mkldnn", "CompiledFxGraph", "## Call CompiledFxGraph")
SEAM_NS = (
    50_000  # between two operations the thread is in Python or in autograd: it is not waiting for other ranks
)


@dataclass(frozen=True)
class Communication:
    """Per step, on the CPU's side. `exposed_ms` is what of it the training thread did not compute beside.

    `reducing` of `backwards` backward passes started a reduction.
    """

    ms: float
    exposed_ms: float
    bookkeeping_ms: float
    calls: float
    backwards: int
    reducing: int


def read_communication(events: ProfiledEvents | None) -> Communication | None:
    """What the kept steps hold of it; None where nothing was communicated."""
    if events is None:
        return None
    collective = _named(events, COLLECTIVES)
    if not collective.any():
        return None
    talking = _covered(events, collective)
    own = events.columns.thread == events.found.own_thread
    computing = _without_seams(
        _covered(events, _named(events, COMPUTING) & own & ~_below(events, collective))
    )
    backwards, reducing = _reducing_backwards(events)
    per_step_ms = 1 / events.kept.steps / 1e6
    return Communication(
        ms=talking.length * per_step_ms,
        exposed_ms=(talking.length - overlap(talking, computing)) * per_step_ms,
        bookkeeping_ms=_covered(events, _named(events, REDUCER) & own).length * per_step_ms,
        calls=float((_named(events, REDUCTIONS) & events.begins_inside).sum()) / events.kept.steps,
        backwards=backwards,
        reducing=reducing,
    )


def _named(events: ProfiledEvents, prefixes: tuple[str, ...]) -> Flags:
    import numpy as np

    wanted = np.array([name.startswith(prefixes) for name in events.columns.names], dtype=np.bool_)
    on_cpu: Flags = wanted[events.columns.name] & (events.columns.device < 0)
    return on_cpu


def _covered(events: ProfiledEvents, wanted: Flags) -> Intervals:
    """The time of these events within the kept steps."""
    import numpy as np

    columns, kept = events.columns, events.kept
    begins = np.clip(columns.start_ns[wanted], kept.from_ns, kept.until_ns)
    ends = np.clip(columns.start_ns[wanted] + columns.duration_ns[wanted], kept.from_ns, kept.until_ns)
    return union(begins, ends)


def _below(events: ProfiledEvents, wanted: Flags) -> Flags:
    """Events directly inside one of these, such as the copies that a collective makes."""
    parent = events.parent
    inside: Flags = (parent >= 0) & wanted[parent]
    return inside


def _without_seams(intervals: Intervals) -> Intervals:
    """Intervals that follow each other closely, as one."""
    longer = union(intervals.begins, intervals.ends + SEAM_NS)
    return Intervals(longer.begins, longer.ends - SEAM_NS)


def _reducing_backwards(events: ProfiledEvents) -> tuple[int, int]:
    """How many backward passes of the kept steps there were, and how many of them started a reduction."""
    import numpy as np

    columns, kept = events.columns, events.kept
    is_backward = _named(events, (f"{PHASE}backward",)) & (columns.thread == events.found.own_thread)
    begins = columns.start_ns[
        is_backward & (columns.start_ns >= kept.from_ns) & (columns.start_ns < kept.until_ns)
    ]
    reductions = columns.start_ns[_named(events, REDUCTIONS)]
    order = np.sort(begins)
    after = np.searchsorted(order, reductions, side="right")
    return len(order), len(set(after[(after > 0) & (reductions < kept.until_ns)].tolist()))
