"""The phases and steps of a trace that accel did not record, as the ranges that accel would have written.

torch itself names fetching a batch, optimizer steps and `zero_grad`; backward is what the autograd engine runs; the other
operations are forward, loss included. Work that follows a backward or an optimizer step, and that no backward
follows, counts as part of the gap between two phases. Calls into a device's runtime alone, as in a trace of the GPU
only, are no phase.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from accel.profiling.attribution import FIRST_STEP, MODULE, PHASE, STEP
from accel.profiling.kineto_columns import is_of
from accel.profiling.nesting import nesting_order, parents
from accel.traces.event_table import MODULE_FRAME, PROFILER_STEP
from accel.traces.outermost_work import OTHER, OutermostWork, outermost_work

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accel.profiling.kineto_columns import Flags, Ints, KinetoColumns


class Runs(NamedTuple):
    """Neighbouring events of one phase, put together; in order of time, disjoint."""

    phase: NDArray[np.object_]
    begins: Ints
    ends: Ints
    first: Ints  # the row that each begins with


def is_ours(columns: KinetoColumns) -> bool:
    """Whether accel recorded the trace: its own ranges are in it."""
    return any(name.startswith(PHASE) for name in columns.names)


def with_phases(columns: KinetoColumns) -> KinetoColumns:
    """The same events within `accel::` ranges, with `accel.step` instants, and module ranges where frames name modules.

    The profiler's own steps are marked from the begin of the first on.

    >>> read_events(with_phases(columns)).found.phase[0]
    'forward'
    """
    if not len(columns) or is_ours(columns):
        return _without_frames(columns)
    work = outermost_work(columns)
    runs = _runs(columns, work)
    ranges = [
        Ranges(PHASE + phase, runs.begins[runs.phase == phase], runs.ends[runs.phase == phase])
        for phase in dict.fromkeys(runs.phase.tolist())
    ]
    steps, begins = step_ends(columns, runs), profiler_steps(columns)[:1, 0]
    named = replace(columns, names=tuple(map(_module_range, columns.names)))
    return rebuilt(
        named,
        keep=~work.brackets,
        added=[*ranges, Ranges(STEP, steps, steps), Ranges(FIRST_STEP, begins, begins)],
        thread=work.thread,
    )


def _without_frames(columns: KinetoColumns) -> KinetoColumns:
    """accel's own module ranges are by qualified name; frames would hide them."""
    is_frame = is_of(columns.kind, columns.kinds, {"python_function"})
    return rebuilt(columns, keep=~is_frame, added=[], thread=0) if is_frame.any() else columns


def _module_range(name: str) -> str:
    """A frame that torch named after a module's call is that module's range."""
    return MODULE + name[len(MODULE_FRAME) :] if name.startswith(MODULE_FRAME) else name


def _runs(columns: KinetoColumns, work: OutermostWork) -> Runs:
    import numpy as np

    rows, phases = work.rows, work.phases
    if not len(rows):
        return Runs(phases, rows, rows, rows)
    first = np.flatnonzero(np.append(True, phases[1:] != phases[:-1]))
    begins = columns.start_ns[rows[first]]
    ends = np.maximum.reduceat(columns.start_ns[rows] + columns.duration_ns[rows], first)
    ends = np.minimum(ends, np.append(begins[1:], ends[-1]))  # another thread's backward may outlast its call
    runs = Runs(phases[first], begins, ends, rows[first])
    kept = np.array(_are_phases(runs.phase.tolist()), dtype=np.bool_)
    return Runs(runs.phase[kept], runs.begins[kept], runs.ends[kept], runs.first[kept])


def _are_phases(phases: list[str]) -> list[bool]:
    """Of the runs that torch does not name, which are forward: not what only follows a backward or an optimizer."""
    kept = []
    for i, phase in enumerate(phases):
        after = next((p for p in phases[i + 1 : i + 3] if p != "zero_grad"), "")
        is_left_over = i > 0 and phases[i - 1] in ("backward", "optimizer") and after != "backward"
        kept.append(phase != OTHER or not is_left_over)
    return kept


def step_ends(columns: KinetoColumns, runs: Runs) -> Ints:
    """When steps end: the profiler's own steps, else the first optimizer's, else backward passes."""
    import numpy as np

    marked = profiler_steps(columns)
    stepping: Ints = runs.ends[runs.phase == "optimizer"]
    if len(marked):
        steps: Ints = marked[:, 1]
        begun = np.append(marked[0, 0], steps[:-1])
        trained = [
            bool(((stepping > low) & (stepping <= high)).any())
            for low, high in zip(begun, steps, strict=True)
        ]
        if any(trained):
            steps = steps[np.array(trained)]
        return steps
    if not len(stepping):
        stepping = runs.ends[runs.phase == "backward"]
        return stepping
    first = runs.first[runs.phase == "optimizer"]
    if columns.is_annotation[first].all():  # otherwise an operation of an update that came after its closure
        stepping = stepping[columns.name[first] == columns.name[first[0]]]
    return stepping


def profiler_steps(columns: KinetoColumns) -> Ints:
    """(begin, end) of each `ProfilerStep#n`, in order of time."""
    import numpy as np

    is_step = np.array([name.startswith(PROFILER_STEP) for name in columns.names], dtype=np.bool_)[
        columns.name
    ]
    begins = columns.start_ns[is_step & columns.is_nested]
    ends = begins + columns.duration_ns[is_step & columns.is_nested]
    order = np.argsort(begins, kind="stable")
    return np.stack([begins[order], ends[order]], axis=1)


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
