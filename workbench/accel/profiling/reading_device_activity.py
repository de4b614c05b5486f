"""From the events of the profiled steps to what each GPU did in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.profiling.device_activity import CopyRow, DeviceActivity, KernelRow
from accel.profiling.device_work import (
    Copied,
    DeviceWork,
    is_communication,
    read_device_work,
    uses_tensor_cores,
    what_was_copied,
)
from accel.profiling.intervals import Intervals, covered_until, gaps, overlap
from accel.profiling.kineto_columns import is_of
from accel.profiling.op_table import shown_name

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from accel.profiling.attribution import Timeline
    from accel.profiling.kineto_columns import Flags, Ints
    from accel.profiling.profiled_events import ProfiledEvents

WAITING_FOR_DATA = "data"


def read_device_activity(events: ProfiledEvents | None) -> tuple[DeviceActivity, ...]:
    """One entry per GPU that did something in the trace; empty for the CPU alone.

    >>> [activity.device for activity in read_device_activity(events)]
    ['cuda:0']
    """
    if events is None:
        return ()
    return tuple(_activity(events, work) for work in read_device_work(events.columns, events.kept))


def _activity(events: ProfiledEvents, work: DeviceWork) -> DeviceActivity:
    import numpy as np

    columns, steps = events.columns, events.kept.steps
    is_kernel = is_of(columns.kind, columns.kinds, {"kernel"})[work.row]
    lengths = work.ends - work.begins
    span = work.until_ns - work.from_ns
    busy = work.busy()
    idle = gaps(busy, work.from_ns, work.until_ns)
    late = idle.where(_ended_by_late_launch(idle, work))
    launch_gaps = sum(ns for name, ns in _by_phase(late, events.found.timeline) if name != WAITING_FOR_DATA)
    kernels = _kernel_rows(events, work.row[is_kernel & work.is_kept], lengths[is_kernel & work.is_kept])
    kernel_ns = lengths[is_kernel & work.is_kept]
    communication = _named(events, work.row, is_communication) & is_kernel
    talking = work.busy(communication)
    return DeviceActivity(
        device=columns.device_name(work.device),
        step_ms=span / steps / 1e6,
        busy_share=busy.length / span,
        idle_share=idle.length / span,
        launch_gaps_share=launch_gaps / span,
        kernels=kernels,
        copies=_copy_rows(events, work, lengths),
        streams=_streams(columns.stream[work.row], lengths, work.is_kept, steps),
        kernels_per_step=len(kernel_ns) / steps,
        median_kernel_us=float(np.median(kernel_ns)) / 1e3 if len(kernel_ns) else 0.0,
        tensor_core_share=sum(row.share for row in kernels if row.uses_tensor_cores),
        unknown_core_share=sum(row.share for row in kernels if row.uses_tensor_cores is None),
        communication_ms=talking.length / steps / 1e6,
        communication_overlap=overlap(talking, work.busy(is_kernel & ~communication))
        / max(talking.length, 1),
        idle_phases=tuple((name, ns / span) for name, ns in _by_phase(idle, events.found.timeline)),
        has_steps=events.kept.has_steps,
    )


def _ended_by_late_launch(idle: Intervals, work: DeviceWork) -> Flags:
    """Idle times at whose beginning nothing had been launched yet of what ended them.

    The last one counts too where nothing ends it: had there been work, it would have run.
    """
    import numpy as np

    order = np.argsort(work.begins, kind="stable")
    place = np.searchsorted(work.begins[order], idle.ends)
    ended = place < len(order)
    next_launch = work.launched_ns[order[np.minimum(place, len(order) - 1)]]
    late: Flags = ~ended | (next_launch >= idle.begins)
    return late


def _by_phase(idle: Intervals, timeline: Timeline) -> list[tuple[str, int]]:
    """(phase or gap, ns) of what the cell's own thread was doing during those times, largest first."""
    import numpy as np

    end = np.iinfo(np.int64).max
    passed = covered_until(idle, np.append(timeline.starts, end))
    sums: dict[str, int] = {}
    for name, ns in zip(timeline.names.tolist(), np.diff(passed).tolist(), strict=True):
        if ns:
            sums[name] = sums.get(name, 0) + ns
    return sorted(sums.items(), key=lambda each: -each[1])


def _named(events: ProfiledEvents, rows: Ints, wanted: Callable[[str], bool]) -> Flags:
    """Which of the rows have a name that is wanted; each name is asked once, and only names of these rows."""
    import numpy as np

    names, place = np.unique(events.columns.name[rows], return_inverse=True)
    answers = [wanted(events.columns.names[name]) for name in names]
    found: Flags = np.array(answers, dtype=np.bool_)[place]
    return found


def _kernel_rows(events: ProfiledEvents, rows: Ints, lengths: Ints) -> tuple[KernelRow, ...]:
    """Kernels added up by name, launching operation, phase and module, most expensive first."""
    import numpy as np

    if not len(rows):
        return ()
    columns, steps, total = events.columns, events.kept.steps, max(int(lengths.sum()), 1)
    launcher = columns.launcher[rows]
    names, ops = columns.names, ["", *map(shown_name, columns.names)]
    op = np.where(launcher >= 0, columns.name[launcher] + 1, 0)
    phases, phase = _numbered(_launched_in(events, rows, launcher))
    modules, module = _numbered(np.where(launcher >= 0, events.found.module[launcher], ""))
    keys, place = _distinct(np.stack([columns.name[rows], op, phase, module]))
    times, calls = np.bincount(place, weights=lengths).tolist(), np.bincount(place).tolist()
    found = [
        KernelRow(
            names[n], ops[o], phases[p], modules[m],
            times[i] / steps / 1e6, times[i] / total, calls[i] / steps, uses_tensor_cores(names[n]),
        )
        for i, (n, o, p, m) in enumerate(keys.T.tolist())
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda row: -row.ms))


def _distinct(keys: Ints) -> tuple[Ints, Ints]:
    """The columns that differ, and for each column its place among them; np.unique(axis=1) takes four times as long."""
    import numpy as np

    order = np.lexsort(keys)
    ordered = keys[:, order]
    is_first = np.append(True, (ordered[:, 1:] != ordered[:, :-1]).any(axis=0))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.cumsum(is_first) - 1
    return ordered[:, is_first], place


def _launched_in(events: ProfiledEvents, rows: Ints, launcher: Ints) -> NDArray[np.object_]:
    """The phase of the operation that launched it; without one, what the cell was doing as the kernel began."""
    import numpy as np

    phase_then = events.found.timeline.at(events.columns.start_ns[rows])
    return np.where(launcher >= 0, events.found.phase[launcher], phase_then)


def _numbered(names: NDArray[np.object_]) -> tuple[list[str], Ints]:
    import numpy as np

    number: dict[str, int] = {}
    codes = np.array([number.setdefault(name, len(number)) for name in names.tolist()], dtype=np.int64)
    return list(number), codes


def _copy_rows(events: ProfiledEvents, work: DeviceWork, lengths: Ints) -> tuple[CopyRow, ...]:
    """Copies that the kept steps asked for, added up by kind and memory, most expensive first."""
    import numpy as np

    columns, steps = events.columns, events.kept.steps
    is_copy = is_of(columns.kind, columns.kinds, {"gpu_memcpy"})[work.row] & work.is_kept
    rows = work.row[is_copy]
    names, place = np.unique(columns.name[rows], return_inverse=True)
    sums: dict[Copied, NDArray[np.float64]] = {}
    each = (lengths[is_copy] / 1e6, columns.bytes[rows], np.ones(len(rows)))
    for name, total in zip(
        names, np.stack([np.bincount(place, values) for values in each], axis=1), strict=True
    ):
        copied = what_was_copied(columns.names[name])
        sums[copied] = sums.get(copied, np.zeros(3)) + total / steps
    found = (CopyRow(*copied, *total.tolist()) for copied, total in sums.items())
    return tuple(sorted(found, key=lambda row: -row.ms))


def _streams(stream: Ints, lengths: Ints, is_kept: Flags, steps: int) -> tuple[tuple[int, float], ...]:
    """Time of the work on each stream, per step, busiest first."""
    import numpy as np

    numbers, place = np.unique(stream[is_kept], return_inverse=True)
    times = np.bincount(place, weights=lengths[is_kept], minlength=len(numbers)) / steps / 1e6
    return tuple(sorted(zip(numbers.tolist(), times.tolist(), strict=True), key=lambda each: -each[1]))
