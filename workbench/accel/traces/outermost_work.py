"""The outermost events of a trace that accel did not record, each with the phase that torch's own names tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from accel.profiling.attribution import BACKWARD_NODE
from accel.profiling.kineto_columns import is_of
from accel.profiling.nesting import nearest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accel.profiling.kineto_columns import Flags, Ints, KinetoColumns

PROFILER_STEP = "ProfilerStep#"
NAMED = {
    "enumerate(DataLoader)#": "data", "Optimizer.step#": "optimizer", "Optimizer.zero_grad#": "zero_grad",
    BACKWARD_NODE: "backward",
}  # fmt: skip
COPIES = ("aten::to", "aten::copy_", "aten::_to_copy", "aten::cuda")
OTHER = "forward"  # what torch does not name


class OutermostWork(NamedTuple):
    """Rows in order of time, with their phases: the main thread's, and backward's where another thread ran it.

    `brackets` flags, for all events, annotations on the main thread that name no phase: the profiler's steps, the user's ranges.
    """

    rows: Ints
    phases: NDArray[np.object_]
    thread: int
    brackets: Flags


def outermost_work(columns: KinetoColumns) -> OutermostWork:
    """What runs within nothing but brackets.

    >>> outermost_work(columns).phases[:3]
    array(['data', 'forward', 'backward'], dtype=object)
    """
    import numpy as np

    of_name = np.array([_phase(name) for name in columns.names], dtype=object)
    says_phase = (of_name != OTHER)[columns.name]
    may_bracket = columns.is_annotation & ~says_phase
    is_work = columns.is_nested & ~may_bracket
    around = np.append(nearest(columns.parent, is_work), -1)[columns.parent]  # parent -1 takes the last
    is_outermost = is_work & (around < 0)
    phases = of_name[columns.name]
    phases[_is_copy_to_device(columns, is_outermost)] = "copy"
    thread = _main_thread(columns, is_outermost, phases)
    rows = np.flatnonzero(is_outermost & (columns.thread == thread))
    rows = rows[np.argsort(columns.start_ns[rows], kind="stable")]
    elsewhere = np.flatnonzero(is_outermost & (columns.thread != thread) & (phases == "backward"))
    rows = np.append(rows, elsewhere[~_begins_within(columns, elsewhere, rows)])
    rows = rows[np.argsort(columns.start_ns[rows], kind="stable")]
    brackets = may_bracket & (around < 0) & (columns.thread == thread)
    return OutermostWork(rows, phases[rows], thread, brackets)


def _phase(name: str) -> str:
    return next((phase for start, phase in NAMED.items() if name.startswith(start)), OTHER)


def _is_copy_to_device(columns: KinetoColumns, is_outermost: Flags) -> Flags:
    """Outermost copies that a transfer from the host was launched by."""
    import numpy as np

    is_copy = is_outermost & np.isin(
        columns.name, [i for i, name in enumerate(columns.names) if name in COPIES]
    )
    from_host = np.array(["HtoD" in name for name in columns.names], dtype=np.bool_)[columns.name]
    transfers = np.flatnonzero(
        from_host & is_of(columns.kind, columns.kinds, {"gpu_memcpy"}) & (columns.launcher >= 0)
    )
    found = np.zeros(len(columns), dtype=np.bool_)
    if len(transfers):
        by = nearest(columns.parent, is_copy)[columns.launcher[transfers]]
        found[by[by >= 0]] = True
    return found


def _main_thread(columns: KinetoColumns, is_outermost: Flags, phases: NDArray[np.object_]) -> int:
    """Where the training loop runs: the profiler's steps, else what torch names, else forward, else the busiest thread."""
    import numpy as np

    steps = np.array([name.startswith(PROFILER_STEP) for name in columns.names], dtype=np.bool_)[columns.name]
    named = is_outermost & (phases != OTHER) & (phases != "backward")
    for candidates in (
        steps & columns.is_nested,
        named,
        is_outermost & (columns.sequence >= 0),
        is_outermost,
    ):
        if candidates.any():
            threads, places = np.unique(columns.thread[candidates], return_inverse=True)
            return int(threads[np.argmax(np.bincount(places, weights=columns.duration_ns[candidates] + 1))])
    return 0


def _begins_within(columns: KinetoColumns, rows: Ints, others: Ints) -> Flags:
    """Which rows begin while one of the others runs; the others are in order of time and do not overlap."""
    import numpy as np

    if not len(others):
        return np.zeros(len(rows), dtype=np.bool_)
    starts = columns.start_ns[others]
    before = np.searchsorted(starts, columns.start_ns[rows], side="right") - 1
    ends = starts + columns.duration_ns[others]
    within: Flags = (before >= 0) & (columns.start_ns[rows] < ends[before])
    return within
