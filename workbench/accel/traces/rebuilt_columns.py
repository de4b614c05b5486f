"""Columns with some events taken out and ranges put in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from accel.profiling.nesting import nesting_order, parents

if TYPE_CHECKING:
    from accel.profiling.kineto_columns import Flags, Ints, KinetoColumns

RANGE = "cpu_op"  # as the kind of the ranges that accel records itself


class Ranges(NamedTuple):
    """Ranges of one name on one thread."""

    name: str
    begins: Ints
    ends: Ints


def rebuilt(columns: KinetoColumns, *, keep: Flags, added: list[Ranges], thread: int) -> KinetoColumns:
    """The events to keep and the ranges, nested anew. A range encloses what begins and ends with it.

    >>> rebuilt(columns, keep=~brackets, added=[Ranges("accel::forward", begins, ends)], thread=1)
    """
    import numpy as np

    added = [ranges for ranges in added if len(ranges.begins)]
    count = sum(len(ranges.begins) for ranges in added)
    names, kinds = [*columns.names, *(ranges.name for ranges in added)], [*columns.kinds, RANGE]
    number = np.repeat(len(columns.names) + np.arange(len(added)), [len(ranges.begins) for ranges in added])
    begins = np.concatenate([ranges.begins for ranges in added]) if added else np.zeros(0, dtype=np.int64)
    ends = np.concatenate([ranges.ends for ranges in added]) if added else begins

    def filled(value: int, values: Ints) -> Ints:
        return np.append(np.full(count, value, dtype=values.dtype), values[keep])

    place = np.append(np.where(keep, count + np.cumsum(keep) - 1, -1), -1)  # a launcher of -1 takes the last
    start = np.append(begins, columns.start_ns[keep])
    duration = np.append(ends - begins, columns.duration_ns[keep])
    on = filled(thread, columns.thread)
    is_nested = np.append(np.full(count, True), columns.is_nested[keep])
    is_annotation = np.append(np.full(count, False), columns.is_annotation[keep])
    order = nesting_order(on, start, duration)
    return replace(
        columns, names=tuple(names), kinds=tuple(kinds), name=np.append(number, columns.name[keep]),
        start_ns=start, duration_ns=duration, thread=on, order=order, is_nested=is_nested,
        parent=parents(order[is_nested[order]], start, duration, on), launcher=filled(-1, place[columns.launcher]),
        kind=filled(len(columns.kinds), columns.kind), sequence=filled(-1, columns.sequence),
        is_annotation=is_annotation, forward_thread=filled(0, columns.forward_thread),
        device=filled(-1, columns.device), stream=filled(-1, columns.stream), bytes=filled(0, columns.bytes),
        correlation=filled(0, columns.correlation),
    )  # fmt: skip
