"""Which row and lane of a timeline each event lies in: a thread's lanes are nesting depths, a stream's hold what overlaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from accel.profiling.attribution import BACKWARD_NODE

if TYPE_CHECKING:
    from accel.profiling.kineto_columns import Ints, KinetoColumns
    from accel.profiling.profiled_events import ProfiledEvents

RowKind = Literal["thread", "asynchronous", "stream"]
KINDS: tuple[RowKind, ...] = ("thread", "asynchronous", "stream")


class PlacedRow(NamedTuple):
    """A row's label and kind, and how many slices each of its lanes has."""

    label: str
    kind: RowKind
    counts: tuple[int, ...]


class Places(NamedTuple):
    """`order` sorts the chosen events by row, lane and time; `rows` say how many of them go where."""

    order: Ints
    rows: tuple[PlacedRow, ...]


def places(events: ProfiledEvents, chosen: Ints) -> Places:
    """Place the chosen events: the training thread first, other threads, then streams."""
    import numpy as np

    columns = events.columns
    is_stream = columns.stream[chosen] >= 0
    kind = np.where(is_stream, 2, np.where(columns.is_nested[chosen], 0, 1))
    thread, own = columns.thread[chosen], events.found.own_thread
    where = np.where(is_stream, columns.device[chosen], thread != own)
    which = np.where(is_stream, columns.stream[chosen], thread)
    keys, row = np.unique(np.stack([kind, where, which]), axis=1, return_inverse=True)
    row = row.reshape(-1)
    lane = _depths(columns.parent)[chosen]
    for number in np.flatnonzero(keys[0] > 0).tolist():
        own_events = np.flatnonzero(row == number)
        lane[own_events] = _side_by_side(columns, chosen[own_events])
    order = np.lexsort((columns.start_ns[chosen], lane, row))
    labels = _labels(keys.T.tolist(), events)
    rows = (
        PlacedRow(labels[number], KINDS[int(keys[0, number])], _counts(lane[row == number]))
        for number in range(keys.shape[1])
    )
    return Places(order, tuple(rows))


def _depths(parent: Ints) -> Ints:
    """How many events enclose each one."""
    import numpy as np

    depth, above = np.zeros(len(parent), dtype=np.int64), parent
    while (inside := above >= 0).any():
        depth += inside
        above = np.where(inside, parent[above], -1)
    return depth


def _side_by_side(columns: KinetoColumns, events: Ints) -> Ints:
    """The first lane that is free when each event starts: kernels of one stream seldom overlap, async work does."""
    import numpy as np

    lanes = np.zeros(len(events), dtype=np.int64)
    free_at: list[int] = []
    starts = columns.start_ns[events]
    ends = (starts + columns.duration_ns[events]).tolist()
    begins = starts.tolist()
    for i in np.argsort(starts, kind="stable").tolist():
        lane = next((n for n, end in enumerate(free_at) if end <= begins[i]), len(free_at))
        if lane == len(free_at):
            free_at.append(0)
        lanes[i], free_at[lane] = lane, ends[i]
    return lanes


def _counts(lanes: Ints) -> tuple[int, ...]:
    """How many slices each lane has; a depth whose events were too short to be chosen has none and is left out."""
    import numpy as np

    return tuple(count for count in np.bincount(lanes).tolist() if count)


def thread_labels(events: ProfiledEvents) -> dict[int, str]:
    """Each thread of the CPU by what it does, the training thread first.

    >>> thread_labels(profile.events)
    {1: 'Training thread', 2: 'Thread 2 (backward)'}
    """
    columns, own = events.columns, events.found.own_thread
    backward = [i for i, name in enumerate(columns.names) if name.startswith(BACKWARD_NODE)]
    labels = {own: "Training thread"}
    for thread in sorted(set(columns.thread[columns.stream < 0].tolist()) - {own}):
        at_work = set(columns.name[columns.thread == thread].tolist())
        does = " (backward)" if at_work.intersection(backward) else ""
        labels[thread] = f"Thread {len(labels) + 1}{does}"
    return labels


def _labels(keys: list[list[int]], events: ProfiledEvents) -> list[str]:
    threads = thread_labels(events)
    return [_label(RowKeys(*key), threads) for key in keys]


def _label(key: RowKeys, threads: dict[int, str]) -> str:
    if KINDS[key.kind] == "stream":
        return f"GPU {key.where} · stream {key.which}"
    shared = " · asynchronous" if KINDS[key.kind] == "asynchronous" else ""
    return threads[key.which] + shared


class RowKeys(NamedTuple):
    """What tells rows apart and orders them: kind, then GPU (of a stream) or whether it is another thread, then number."""

    kind: int
    where: int
    which: int
