"""The outermost events of a trace that accel did not record, each with the phase that torch's own names tell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from accel.profiling.attribution import BACKWARD_NODE
from accel.profiling.kineto_columns import RUNTIME, is_of
from accel.profiling.nesting import nearest
from accel.traces.event_table import PROFILER_STEP

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accel.profiling.kineto_columns import Flags, Ints, KinetoColumns

NAMED = {
    "enumerate(DataLoader)#": "data", "Optimizer.step#": "optimizer", "Optimizer.zero_grad#": "zero_grad",
    BACKWARD_NODE: "backward",
}  # fmt: skip
# As torch before 1.8 named what the autograd engine runs.
OLD_NODE = re.compile(r"(?:torch::autograd::)?\w+Backward\d*|torch::autograd::\w+")
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
    is_old_node = np.array([bool(OLD_NODE.fullmatch(name)) for name in columns.names], dtype=np.bool_)
    phases = of_name[columns.name]
    phases[is_old_node[columns.name] & ~columns.is_annotation & (phases == OTHER)] = "backward"
    says_phase = phases != OTHER
    holds_backward, in_update = _updates_by_closure(columns, phases)
    may_bracket = (columns.is_annotation & ~says_phase) | holds_backward
    is_call = is_of(columns.kind, columns.kinds, RUNTIME)
    is_work = columns.is_nested & ~may_bracket
    around = np.append(nearest(columns.parent, is_work), -1)[columns.parent]  # parent -1 takes the last
    is_outermost = is_work & (around < 0)
    phases[in_update & (phases == OTHER)] = "optimizer"
    phases[_is_copy_to_device(columns, is_outermost)] = "copy"
    thread = _main_thread(columns, is_outermost, phases)
    rows = np.flatnonzero(is_outermost & (columns.thread == thread) & ~is_call)
    rows = rows[np.argsort(columns.start_ns[rows], kind="stable")]
    elsewhere = np.flatnonzero(is_outermost & (columns.thread != thread) & (phases == "backward"))
    rows = np.append(rows, elsewhere[~_begins_within(columns, elsewhere, rows)])
    rows = rows[np.argsort(columns.start_ns[rows], kind="stable")]
    brackets = may_bracket & (around < 0) & (columns.thread == thread)
    return OutermostWork(rows, phases[rows], thread, brackets)


def _phase(name: str) -> str:
    return next((phase for start, phase in NAMED.items() if name.startswith(start)), OTHER)


def _updates_by_closure(columns: KinetoColumns, phases: NDArray[np.object_]) -> tuple[Flags, Flags]:
    """For `step(closure)`: the optimizer ranges that contain a backward pass, and the events after its last backward pass."""
    import numpy as np

    starts, ends = columns.start_ns, columns.start_ns + columns.duration_ns
    ranges = np.flatnonzero((phases == "optimizer") & columns.is_annotation)
    ranges = ranges[np.argsort(starts[ranges], kind="stable")]
    passes = np.flatnonzero((phases == "backward") & columns.is_nested)
    passes = passes[np.argsort(starts[passes], kind="stable")]
    holds, in_update = np.zeros(len(columns), dtype=np.bool_), np.zeros(len(columns), dtype=np.bool_)
    if not len(ranges) or not len(passes):
        return holds, in_update
    last = np.searchsorted(starts[passes], ends[ranges]) - 1
    held = (last >= 0) & (starts[passes[last]] >= starts[ranges])
    holds[ranges[held]] = True
    if held.any():
        updates = np.maximum.accumulate(ends[passes])[last[held]]
        around = np.searchsorted(starts[ranges[held]], starts, side="right") - 1
        in_update = (around >= 0) & (starts >= updates[around]) & (starts < ends[ranges[held]][around])
    return holds, in_update


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
    """Where the training loop runs: the profiler's steps, else what torch names, else forward, else the busiest thread.

    Backward may run on a thread of its own; each of its nodes says on which thread its forward ran.
    """
    import numpy as np

    steps = np.array([name.startswith(PROFILER_STEP) for name in columns.names], dtype=np.bool_)[columns.name]
    named = is_outermost & (phases != OTHER) & (phases != "backward")
    is_other = is_outermost & (phases != "backward") & ~is_of(columns.kind, columns.kinds, RUNTIME)
    for candidates in (
        steps & columns.is_nested,
        named,
        is_other & np.isin(columns.thread, columns.forward_thread[is_outermost & (phases == "backward")]),
        is_other & (columns.sequence >= 0),
        is_other,
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
