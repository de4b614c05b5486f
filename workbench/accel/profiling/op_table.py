"""Rows of (phase, module, operation) with self time per step, from the events of a few profiled steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from accel.profiling.attribution import COMPILED, MODULE, PHASE, Attribution
from accel.profiling.kept_steps import KeptSteps

if TYPE_CHECKING:
    from accel.profiling.kineto_columns import Flags, Ints, KinetoColumns
    from accel.profiling.profiled_events import ProfiledEvents

PYTHON = "Python code"


@dataclass(frozen=True)
class OpRow:
    """One operation in one phase and module; "" in a field that rows were added up over.

    `self_ms`, `calls` and `device_ms` are per step; `share` is of all self time. `device_ms` is the time of the kernels
    the operation launched on a GPU: it overlaps the CPU's and is not part of the share.
    """

    op: str
    phase: str
    module: str
    self_ms: float
    share: float
    calls: float
    device_ms: float = 0.0


@dataclass(frozen=True)
class OpTable:
    """All rows, most expensive first, and the steps they are an average of."""

    rows: tuple[OpRow, ...] = ()
    steps: int = 0
    dropped_steps: int = 0
    has_steps: bool = False


def read_op_table(events: ProfiledEvents | None) -> OpTable:
    """Add up self time by phase, module and operation.

    On the cell's own thread the rows add up to the wall time of the steps that were kept: what no operation covers
    is the row "Python code" of its phase, module or gap. Work on other threads is added; the waiting of the cell's
    own thread for it is taken off again.
    """
    if events is None:
        return OpTable()
    columns, found, kept = events.columns, events.found, events.kept
    sums = _add_up(columns, found, events.begins_inside, events.self_ns, events.duration_ns)
    is_own = columns.thread == found.own_thread
    uncovered = events.counts & found.is_outside & (events.parent < 0) & is_own
    _add_gaps(sums, found, events.duration_ns * uncovered, kept)
    _take_off_waiting(sums, found, events.self_ns * ~is_own)
    return OpTable(_rows(sums, kept.steps), kept.steps, kept.dropped, kept.has_steps)


def add_up(rows: Iterable[OpRow], *, by: Callable[[OpRow], tuple[str, str, str]]) -> tuple[OpRow, ...]:
    """Add rows with the same (op, phase, module) under `by`, most expensive first.

    >>> add_up(profile.rows, by=lambda row: (row.op, "", ""))
    """
    sums: dict[tuple[str, str, str], OpRow] = {}
    for row in rows:
        op, phase, module = key = by(row)
        old = sums.get(key)
        sums[key] = replace(row, op=op, phase=phase, module=module) if old is None else replace(
            old, self_ms=old.self_ms + row.self_ms, share=old.share + row.share, calls=old.calls + row.calls,
            device_ms=old.device_ms + row.device_ms,
        )  # fmt: skip
    return tuple(sorted(sums.values(), key=lambda row: -row.self_ms))


Sums = dict[tuple[str, str, str], "list[float]"]  # (phase, module, op) → [self ns, calls, device ns]


def _add_up(
    columns: KinetoColumns, found: Attribution, begins_inside: Flags, self_ns: Ints, duration: Ints
) -> Sums:
    """Group the events; device work counts for the operation that launched it."""
    import numpy as np

    shown = [shown_name(name) for name in columns.names]
    ops, op = np.unique(np.array(shown, dtype=object), return_inverse=True)
    phases, phase = found.phases.names, found.phases.number
    modules, module = found.modules.names, found.modules.number
    key = (phase * len(modules) + module) * len(ops) + op[columns.name]
    keys, place = _numbered(key, len(phases) * len(modules) * len(ops))
    launched = columns.launcher >= 0
    on_device = launched & ~columns.is_nested
    device = np.bincount(place[columns.launcher[on_device]], weights=duration[on_device], minlength=len(keys))
    time = np.bincount(place, weights=self_ns, minlength=len(keys))
    calls = np.bincount(place[begins_inside], minlength=len(keys))
    sums: Sums = {}
    for i, k in enumerate(keys.tolist()):
        if time[i] or calls[i] or device[i]:
            rest, o = divmod(k, len(ops))
            p, m = divmod(rest, len(modules))
            sums[phases[p], modules[m], ops[o]] = [float(time[i]), float(calls[i]), float(device[i])]
    return sums


def _numbered(key: Ints, count: int) -> tuple[Ints, Ints]:
    """The keys that occur, in order, and each event's place among them; without a sort where the keys are small numbers."""
    import numpy as np

    if count > 4 * len(key) + 100_000:
        return np.unique(key, return_inverse=True)
    occurs = np.zeros(count, dtype=np.bool_)
    occurs[key] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[key]


def shown_name(name: str) -> str:
    """A range's own time is Python; a compiled graph is known by its kind, for its name is a hash."""
    if name.startswith((PHASE, MODULE)):
        return PYTHON
    return COMPILED if COMPILED in name else name


def _add_gaps(sums: Sums, found: Attribution, covered: Ints, kept: KeptSteps) -> None:
    """Time between two phases that no operation covers is Python code of that gap."""
    import numpy as np

    starts = np.clip(found.timeline.starts, kept.from_ns, kept.until_ns)
    lengths = np.diff(starts, append=kept.until_ns)
    for name in {str(n) for n in found.timeline.names if "→" in n}:
        length = lengths[found.timeline.names == name].sum() - covered[found.phases.where(name)].sum()
        if length > 0:
            sums.setdefault((name, "", PYTHON), [0.0, 0.0, 0.0])[0] += float(length)


def _take_off_waiting(sums: Sums, found: Attribution, elsewhere: Ints) -> None:
    """While another thread worked for a phase (backward on a GPU), the own thread's range only waited."""
    import numpy as np

    for phase in {found.phases.names[i] for i in np.unique(found.phases.number[elsewhere > 0]).tolist()}:
        if waiting := sums.get((phase, "", PYTHON)):
            waiting[0] = max(0.0, waiting[0] - float(elsewhere[found.phases.where(phase)].sum()))


def _rows(sums: Sums, steps: int) -> tuple[OpRow, ...]:
    total = sum(time for time, _, _ in sums.values()) or 1.0
    rows = (
        OpRow(op, phase, module, time / steps / 1e6, time / total, calls / steps, device / steps / 1e6)
        for (phase, module, op), (time, calls, device) in sums.items()
    )
    return tuple(sorted(rows, key=lambda row: -row.self_ms))
