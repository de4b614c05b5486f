"""Which part of a trace the figures are of: the profiled steps without the warm-up, or all where there are too few."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from accel.profiling.attribution import FIRST_STEP, PHASE, STEP

if TYPE_CHECKING:
    from accel.profiling.kineto_columns import Flags, Ints, KinetoColumns


class KeptSteps(NamedTuple):
    """Times on the trace's clock; `steps` is 1 for a trace in which no step ended."""

    from_ns: int
    until_ns: int
    steps: int
    dropped: int
    has_steps: bool


def kept_steps(columns: KinetoColumns, thread: int, warmup: int) -> KeptSteps:
    """From the first step to the end of the last, less `warmup` steps, but never more than half; without steps, everything.

    >>> kept_steps(columns, thread=1, warmup=2)
    KeptSteps(from_ns=1795222988063546060, until_ns=1795222988112083911, steps=5, dropped=2, has_steps=True)
    """
    borders = step_borders(columns, thread)
    if not len(borders):
        last = int((columns.start_ns + columns.duration_ns).max())
        return KeptSteps(int(columns.start_ns.min()), last, 1, 0, False)
    steps = len(borders) - 1
    dropped = min(warmup, steps // 2)
    return KeptSteps(int(borders[dropped]), int(borders[-1]), steps - dropped, dropped, True)


def is_named(columns: KinetoColumns, name: str) -> Flags:
    """Which events have that name."""
    import numpy as np

    return np.array([known == name for known in columns.names], dtype=np.bool_)[columns.name]


def is_step_mark(columns: KinetoColumns) -> Flags:
    """Which events are instants that say where steps begin or end, and so no work."""
    return is_named(columns, STEP) | is_named(columns, FIRST_STEP)


def step_borders(columns: KinetoColumns, thread: int) -> Ints:
    """When the first step begins, and when each ends; empty without steps.

    The first begins where the trace marks it, else with the first phase: before that the loop had not begun.
    """
    import numpy as np

    ends = step_ends(columns, thread)
    if not len(ends):
        return ends
    of_phase = np.array([name.startswith(PHASE) for name in columns.names], dtype=np.bool_)[columns.name]
    for begins in (is_named(columns, FIRST_STEP), of_phase):
        found = columns.start_ns[begins & (columns.thread == thread)]
        if len(found) and found.min() < ends[0]:
            return np.append(found.min(), ends)
    return np.append(columns.start_ns.min(), ends)


def step_ends(columns: KinetoColumns, thread: int) -> Ints:
    """When steps end: with the phase before each step instant, so that the gap after it belongs to the next step.

    Where the trace marks its steps from end to end, they end where it says.
    Until an optimizer steps, each backward counts as a step; those are taken back if an optimizer does.
    """
    import numpy as np

    on_thread = columns.thread == thread
    instants: Ints = np.sort(columns.start_ns[is_named(columns, STEP) & on_thread])
    if is_named(columns, FIRST_STEP).any():
        return instants
    event_ends = columns.start_ns + columns.duration_ns
    optimizer = is_named(columns, PHASE + "optimizer") & on_thread
    if optimizer.any():
        instants = instants[instants >= event_ends[optimizer].min()]
    is_phase = np.array([name.startswith(PHASE) for name in columns.names], dtype=np.bool_)[columns.name]
    phase_ends = np.sort(event_ends[is_phase & on_thread])
    before = np.searchsorted(phase_ends, instants, side="right") - 1
    return np.where(before >= 0, phase_ends[before], instants) if len(phase_ends) else instants
