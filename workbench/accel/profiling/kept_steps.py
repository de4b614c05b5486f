"""Which part of a trace the figures are of: the profiled steps without the warm-up, or all where there are too few."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from accel.profiling.attribution import PHASE, STEP

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
    """Drop the first `warmup` steps, but never more than half of those seen; with one step or none, keep everything.

    >>> kept_steps(columns, thread=1, warmup=2)
    KeptSteps(from_ns=1795222988063546060, until_ns=1795222988112083911, steps=5, dropped=2, has_steps=True)
    """
    ends = step_ends(columns, thread)
    dropped = min(warmup, len(ends) // 2)
    if dropped:
        return KeptSteps(int(ends[dropped - 1]), int(ends[-1]), len(ends) - dropped, dropped, True)
    last = int((columns.start_ns + columns.duration_ns).max())
    return KeptSteps(int(columns.start_ns.min()), last, max(len(ends), 1), 0, len(ends) > 0)


def is_named(columns: KinetoColumns, name: str) -> Flags:
    """Which events have that name."""
    import numpy as np

    return np.array([known == name for known in columns.names], dtype=np.bool_)[columns.name]


def step_ends(columns: KinetoColumns, thread: int) -> Ints:
    """When steps end: with the phase before each step instant, so that the gap after it belongs to the next step.

    Until an optimizer steps, each backward counts as a step; those are taken back if an optimizer does.
    """
    import numpy as np

    on_thread = columns.thread == thread
    instants: Ints = np.sort(columns.start_ns[is_named(columns, STEP) & on_thread])
    event_ends = columns.start_ns + columns.duration_ns
    optimizer = is_named(columns, PHASE + "optimizer") & on_thread
    if optimizer.any():
        instants = instants[instants >= event_ends[optimizer].min()]
    is_phase = np.array([name.startswith(PHASE) for name in columns.names], dtype=np.bool_)[columns.name]
    phase_ends = np.sort(event_ends[is_phase & on_thread])
    before = np.searchsorted(phase_ends, instants, side="right") - 1
    return np.where(before >= 0, phase_ends[before], instants) if len(phase_ends) else instants
