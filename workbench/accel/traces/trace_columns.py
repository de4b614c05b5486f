"""A trace's events as the same columns that a live profile is read into."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from accel.profiling.attribution import BACKWARD_NODE
from accel.profiling.kineto_columns import ON_CPU, RUNTIME, KinetoColumns, is_of
from accel.profiling.nesting import nesting_order, overlaps, parents
from accel.traces.damage import Damage
from accel.traces.event_table import DAY_US, ON_DEVICE, PROFILER_STEP, EventArrays
from accel.traces.trace_event import NO_DURATION

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accel.profiling.kineto_columns import Flags, Ints


def read_trace_columns(events: EventArrays, damage: Damage) -> KinetoColumns:
    """Columns with times in ns on the trace's own clock; events with times that cannot be are counted and left out.

    >>> columns = read_trace_columns(table.arrays(), damage)
    """
    import numpy as np

    events = _sound(events, damage)
    kind, is_device = events.kind, is_of(events.kind, events.kinds, ON_DEVICE)
    is_runtime = is_of(kind, events.kinds, RUNTIME)
    start = nanoseconds(events.ts)
    duration = (
        nanoseconds(events.ts + events.dur) - start if _is_coarse(events.ts) else nanoseconds(events.dur)
    )
    launcher = _launchers(events, is_device, is_runtime, is_of(kind, events.kinds, ON_CPU))
    thread = _threads(events)
    linked = (launcher >= 0) & ~is_device
    thread[linked] = thread[launcher[linked]]
    nest = _nested(~is_device, start, duration, thread, damage)
    return KinetoColumns(
        names=events.names, name=events.name.astype(np.int64), start_ns=nest.start, duration_ns=nest.duration, thread=thread,
        sequence=events.sequence, forward_thread=_forward_threads(events, thread),
        is_annotation=is_of(kind, events.kinds, {"user_annotation"}) | _is_step(events), is_nested=~is_device,
        parent=nest.parent, launcher=_by_call(events, launcher, nest.parent, is_device, is_runtime), order=nest.order,
        kinds=events.kinds, kind=kind.astype(np.int64),
        device=np.where(is_device, np.maximum(events.device, 0), -1), stream=_streams(events, is_device),
        bytes=np.maximum(events.bytes, 0) * is_device, correlation=events.correlation * (is_device | is_runtime),
    )  # fmt: skip


def _is_step(events: EventArrays) -> Flags:
    """The profiler's own steps: torch has not always called them annotations."""
    import numpy as np

    steps: Flags = np.array([name.startswith(PROFILER_STEP) for name in events.names], dtype=np.bool_)[
        events.name
    ]
    return steps


def nanoseconds(times_us: NDArray[np.float64]) -> Ints:
    """µs with three decimals as whole ns, exactly as long as the decimals survived in the float (up to 2⁴³ µs)."""
    import numpy as np

    whole = np.floor(times_us)
    return whole.astype(np.int64) * 1000 + np.rint((times_us - whole) * 1000).astype(np.int64)


def _is_coarse(ts: NDArray[np.float64]) -> bool:
    """torch 2.1 and 2.2 wrote µs since 1970 with decimals that no float holds: ends are then as uncertain as begins."""
    return bool(len(ts)) and float(ts.max()) >= 2.0**43


def _sound(events: EventArrays, damage: Damage) -> EventArrays:
    """Without events whose time or duration cannot be."""
    import numpy as np

    with np.errstate(invalid="ignore"):
        missing = events.dur == NO_DURATION
        wrong = ~missing & ~((events.dur >= 0) & (events.dur <= DAY_US))
        known = np.isfinite(events.ts) & (np.abs(events.ts) < 9e15)
        middle = _middle(events.ts[known])
        at_no_time = ~missing & ~wrong & ~(known & (np.abs(events.ts - middle) <= DAY_US))
    damage.counts["no_duration"] += int(missing.sum())
    damage.counts["bad_duration"] += int(wrong.sum())
    damage.counts["bad_time"] += int(at_no_time.sum())
    bad = missing | wrong | at_no_time
    return events.chosen(~bad) if bad.any() else events


def _middle(times: NDArray[np.float64]) -> float:
    """The median of some ten thousand of them: a few odd ones must not move it, and that is all that is asked."""
    import numpy as np

    if not len(times):
        return 0.0
    some = times[:: len(times) // 10_000 + 1]
    return float(np.partition(some, len(some) // 2)[len(some) // 2])  # np.median would import numpy.ma for it


class _Nest(NamedTuple):
    start: Ints
    duration: Ints
    order: Ints
    parent: Ints


def _nested(takes_part: Flags, start: Ints, duration: Ints, thread: Ints, damage: Damage) -> _Nest:
    """Times in which each event lies within the one it began in: mostly those that were given."""
    nest = _nest(takes_part, start, duration, thread)
    if not overlaps(nest.parent, start, duration, thread).any():
        return nest
    nested = nest.order[takes_part[nest.order]]
    start, duration, cut = cut_at_parents(nested, start, duration, thread)
    damage.counts["outlived"] += cut
    return _nest(takes_part, start, duration, thread)


def _nest(takes_part: Flags, start: Ints, duration: Ints, thread: Ints) -> _Nest:
    order = nesting_order(thread, start, duration)
    return _Nest(start, duration, order, parents(order[takes_part[order]], start, duration, thread))


def _threads(events: EventArrays) -> Ints:
    """torch's thread ids; a thread that a trace names instead gets a number that no system gives."""
    import numpy as np

    numbers = [
        tid if isinstance(tid, int) and abs(tid) < 2**62 else -(i + 2) for i, tid in enumerate(events.threads)
    ]
    return np.array(numbers or [0], dtype=np.int64)[events.thread]


def _streams(events: EventArrays, is_device: Flags) -> Ints:
    """The stream of device work; where only the row in the viewer says it, that."""
    import numpy as np

    return np.where(is_device, np.where(events.stream >= 0, events.stream, _threads(events)), -1)


def _launchers(events: EventArrays, is_device: Flags, is_runtime: Flags, is_op: Flags) -> Ints:
    """For kernels and calls into the runtime, the operation with the same external id, or -1."""
    import numpy as np

    asks = (is_device | is_runtime) & (events.external > 0)
    launcher = np.full(len(events.name), -1, dtype=np.int64)
    if asks.any():
        launcher[asks] = _row_of(events.external[asks], events.external, is_op)
    return launcher


def _by_call(events: EventArrays, launcher: Ints, parent: Ints, is_device: Flags, is_runtime: Flags) -> Ints:
    """Device work without an external id is linked to its call into the runtime, and so to what made the call."""
    import numpy as np

    asks = is_device & (launcher < 0) & (events.correlation > 0)
    if not asks.any():
        return launcher
    call = _row_of(events.correlation[asks], events.correlation, is_runtime)
    made_by = np.where(launcher[call] >= 0, launcher[call], parent[call])
    launcher[asks] = np.where(call >= 0, made_by, -1)
    return launcher


def _row_of(wanted: Ints, numbers: Ints, among: Flags) -> Ints:
    """The row with each wanted number, among some of the rows; -1 where there is none."""
    import numpy as np

    rows = np.flatnonzero(among & (numbers > 0))
    if not len(rows):
        return np.full(len(wanted), -1, dtype=np.int64)
    rows = rows[np.argsort(numbers[rows], kind="stable")]
    place = np.minimum(np.searchsorted(numbers[rows], wanted), len(rows) - 1)
    return np.where(numbers[rows][place] == wanted, rows[place], -1)


def _forward_threads(events: EventArrays, thread: Ints) -> Ints:
    """A backward node names its forward's thread by torch's own small number; the trace knows only the system's ids.

    They are matched by sequence numbers: the thread whose forward operations have most of those that the nodes ask for.
    """
    import numpy as np

    is_node = np.array([name.startswith(BACKWARD_NODE) for name in events.names], dtype=np.bool_)[events.name]
    is_forward = (events.sequence >= 0) & (events.forward == 0)
    candidates = np.unique(thread[is_forward])
    found: Ints = events.forward.copy()
    for number in np.unique(events.forward[is_node & (events.forward > 0)]) if len(candidates) else []:
        asked = np.unique(events.sequence[is_node & (events.forward == number)])
        hits = [np.isin(asked, events.sequence[is_forward & (thread == t)]).sum() for t in candidates]
        found[events.forward == number] = candidates[int(np.argmax(hits))]
    return found


CLOCK_NS = 1000  # torch before 2.3 wrote begins and ends to the µs or half of it


def cut_at_parents(order: Ints, start_ns: Ints, duration_ns: Ints, thread: Ints) -> tuple[Ints, Ints, int]:
    """New begins and durations, and how many events had to be cut by more than a clock's tick.

    An event that begins at most a tick before its neighbour's end begins at that end; one that outlives the event it
    began in ends with it. `order` is that of `nesting_order`.
    """
    import numpy as np

    starts, ends, threads = start_ns.tolist(), (start_ns + duration_ns).tolist(), thread.tolist()
    running: list[int] = []
    current, cut = None, 0
    for i in order.tolist():
        if threads[i] != current:
            running, current = [], threads[i]
        while running and _is_over(ends[running[-1]], starts[i], ends[i]):
            starts[i] = max(starts[i], ends[running.pop()])
        if running:
            around = running[-1]
            cut += ends[i] - ends[around] > CLOCK_NS
            starts[i], ends[i] = max(starts[i], starts[around]), min(ends[i], ends[around])
        ends[i] = max(ends[i], starts[i])
        running.append(i)
    begins = np.array(starts, dtype=np.int64)
    return begins, np.array(ends, dtype=np.int64) - begins, cut


def _is_over(end: int, begins: int, ends: int) -> bool:
    """Whether what ends at `end` is a neighbour of the next event, not its parent."""
    return end <= begins or (end < ends and end - begins <= CLOCK_NS)
