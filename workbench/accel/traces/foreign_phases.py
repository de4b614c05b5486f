"""The phases and steps of a trace that accel did not record, as the ranges that accel would have written.

torch itself names fetching a batch, optimizer steps and `zero_grad`; backward is what the autograd engine runs; the rest is
forward, loss included. What follows a backward or an optimizer and leads to no backward is left to the gap between two phases.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from accel.profiling.attribution import FIRST_STEP, MODULE, PHASE, STEP
from accel.profiling.kineto_columns import is_of
from accel.traces.event_table import MODULE_FRAME
from accel.traces.outermost_work import OTHER, PROFILER_STEP, OutermostWork, outermost_work
from accel.traces.rebuilt_columns import Ranges, rebuilt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accel.profiling.kineto_columns import Ints, KinetoColumns


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
    optimizer = columns.name[runs.first[runs.phase == "optimizer"]]
    stepping = stepping[optimizer == optimizer[0]]
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
