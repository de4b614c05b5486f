"""Bytes over the profiled steps (`--memory`), from the profiler's own events: every allocation and free, a curve a device."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel.profiling.kineto_columns import Ints, KinetoColumns
    from accel.profiling.profiled_events import ProfiledEvents


@dataclass(frozen=True)
class MemoryPoint:
    """Bytes held by tensors at one moment of a profiled step, above what was held at the first one.

    Below zero when more was freed since than allocated: gradients of the step before, for example.
    """

    ms: float  # since the first kept step began
    bytes: int
    phase: str
    module: str


@dataclass(frozen=True)
class MemoryUse:
    """The memory curve of one device, its peak, and who held it.

    >>> print(profile.memory[0])
    cpu: peak 3.34 MiB above the start of the step, in forward of conv1; 12.1 MiB a step in 345 allocations

    `points` are at most some thousands; of more, the highest and the lowest of each stretch were kept. `peak_by` are
    (phase, module, bytes): the highest reading while that phase and module ran, largest first. `allocator` are CUDA
    allocator statistics under torch's own names, since the process began; empty on the CPU.
    """

    device: str  # "cpu", "cuda:0"
    points: tuple[MemoryPoint, ...]
    peak_bytes: int
    peak_phase: str
    peak_module: str
    peak_by: tuple[tuple[str, str, int], ...]
    allocated_bytes_per_step: float  # the sum of all allocations: what the allocator has to serve
    allocations_per_step: float
    allocator: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        from accel.units import size

        where = f"{self.peak_phase} of {self.peak_module}" if self.peak_module else self.peak_phase
        peak = f"peak {size(self.peak_bytes)} above the start of the step, in {where}"
        served = (
            f"{size(self.allocated_bytes_per_step)} a step in {self.allocations_per_step:,.0f} allocations"
        )
        return f"{self.device}: {peak}; {served}"


MEMORY = "[memory]"
MOST_POINTS = 4000
DEVICES = {0: "cpu", 1: "cuda", 12: "xpu", 13: "mps"}  # c10's numbers, for events that know no names
# Of torch.cuda.memory_stats(), what tells a full, a fragmented or a struggling allocator.
STATISTICS = (
    "allocated_bytes.all.current", "allocated_bytes.all.peak", "reserved_bytes.all.current", "reserved_bytes.all.peak",
    "active_bytes.all.peak", "inactive_split_bytes.all.peak", "num_alloc_retries", "num_ooms", "num_device_alloc",
    "num_device_free",
)  # fmt: skip


def read_memory_use(raw: Iterable[Any], events: ProfiledEvents | None) -> tuple[MemoryUse, ...]:
    """One MemoryUse for each device on which memory was allocated or freed in the steps that were kept.

    >>> read_memory_use(window.events, events)[0].peak_bytes
    3502080

    `raw` are kineto's events as they are; the columns leave allocations out, for they take no time.
    """
    if events is None:
        return ()
    low, high = events.kept.from_ns, events.kept.until_ns
    by_device: dict[str, list[Any]] = {}
    for event in raw:
        if event.name() == MEMORY and low <= event.start_ns() <= high:
            by_device.setdefault(_device(event), []).append(event)
    return tuple(_read_device(device, by_device[device], events) for device in sorted(by_device))


def _device(event: Any) -> str:
    kind = event.device_type()
    name = str(getattr(kind, "name", DEVICES.get(int(kind), f"device {int(kind)}"))).lower()
    return name if name == "cpu" else f"{name}:{event.device_index()}"


def _read_device(device: str, rows: list[Any], events: ProfiledEvents) -> MemoryUse:
    import numpy as np

    rows.sort(key=lambda event: event.start_ns())
    times = np.array([event.start_ns() for event in rows], dtype=np.int64)
    changes = np.array([event.nbytes() for event in rows], dtype=np.int64)
    threads = np.array([event.start_thread_id() for event in rows], dtype=np.int64)
    held = np.cumsum(changes)
    places = _places(events, times, threads)
    top = int(np.argmax(held))
    steps = events.kept.steps
    return MemoryUse(
        device=device,
        points=tuple(
            MemoryPoint((int(times[i]) - events.kept.from_ns) / 1e6, int(held[i]), *places[i])
            for i in _drawn(held).tolist()
        ),
        peak_bytes=int(held[top]),
        peak_phase=places[top][0],
        peak_module=places[top][1],
        peak_by=_peaks(held, places),
        allocated_bytes_per_step=float(changes[changes > 0].sum()) / steps,
        allocations_per_step=float((changes > 0).sum()) / steps,
        allocator=allocator_statistics(device),
    )


def _places(events: ProfiledEvents, times: Ints, threads: Ints) -> list[tuple[str, str]]:
    """(phase, module) of each moment: of the innermost event around it.

    Outside of all phase ranges the phase is what the cell's own thread was doing at that moment.
    """
    found = events.found
    around = enclosing(events.columns, times, threads).tolist()
    on_cells_thread = found.timeline.at(times).tolist()
    return [
        (
            str(name if i < 0 or found.is_outside[i] else found.phase[i]),
            str(found.module[i]) if i >= 0 else "",
        )
        for i, name in zip(around, on_cells_thread, strict=True)
    ]


def enclosing(columns: KinetoColumns, times: Ints, threads: Ints) -> Ints:
    """The innermost event on that thread at each moment, or -1.

    It is the event that began last before the moment, or one of those around that.
    """
    import numpy as np

    row = np.full(len(times), -1, dtype=np.int64)
    ordered = columns.order[columns.is_nested[columns.order]]
    for thread in np.unique(threads).tolist():
        own, here = ordered[columns.thread[ordered] == thread], threads == thread
        if len(own):
            last = np.searchsorted(columns.start_ns[own], times[here], side="right") - 1
            row[here] = np.where(last >= 0, own[last], -1)
    ends = columns.start_ns + columns.duration_ns
    while (over := (row >= 0) & (ends[row] < times)).any():
        row[over] = columns.parent[row[over]]
    return row


def _peaks(held: Ints, places: list[tuple[str, str]]) -> tuple[tuple[str, str, int], ...]:
    peaks: dict[tuple[str, str], int] = {}
    for place, value in zip(places, held.tolist(), strict=True):
        peaks[place] = max(value, peaks.get(place, value))
    return tuple((*place, peak) for place, peak in sorted(peaks.items(), key=lambda item: -item[1]))


def _drawn(held: Ints) -> Ints:
    """Which points to keep: all, or the highest and the lowest of each of so many stretches, so that no peak is lost."""
    import numpy as np

    if len(held) <= MOST_POINTS:
        return np.arange(len(held))
    stretches = np.array_split(np.arange(len(held)), MOST_POINTS // 2)
    kept = [stretch[pick(held[stretch])] for stretch in stretches for pick in (np.argmax, np.argmin)]
    return np.unique(np.array(kept, dtype=np.int64))


def allocator_statistics(device: str) -> tuple[tuple[str, int], ...]:
    """Name and value of each statistic, for a device as "cuda:0"; empty where there is no such allocator.

    >>> dict(allocator_statistics("cuda:0"))["allocated_bytes.all.peak"]  # as torch.cuda.max_memory_allocated()
    1263616

    Peaks are since the process began, or since the user reset them: resetting is the user's to do.
    """
    torch = sys.modules.get("torch")
    if torch is None or not device.startswith("cuda:") or not torch.cuda.is_initialized():
        return ()
    return chosen_statistics(torch.cuda.memory_stats(device))


def chosen_statistics(statistics: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Those worth telling; older versions of torch know fewer."""
    return tuple((name, int(statistics[name])) for name in STATISTICS if name in statistics)
