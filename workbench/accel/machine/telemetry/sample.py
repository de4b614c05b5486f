"""One sample: what the machine did between two readings of its counters."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from accel.machine.telemetry.counters import CHILD_KINDS, ChildCounters, ChildKind, HostCounters
from accel.machine.telemetry.gpu_load import GpuLoad

GPU_COLUMNS = (
    "busy", "memory_used_bytes", "power_w", "temperature_c", "sm_mhz", "is_slowed",
    "pcie_in_bytes_s", "pcie_out_bytes_s", "nvlink_in_bytes_s", "nvlink_out_bytes_s",
)  # fmt: skip
HOST_COLUMNS = (
    "time_s", "interval_s", "cpu_busy", "stolen", "waiting_for_disk", "process_cores", "process_rss_bytes",
    *(f"{kind}_{what}" for kind in CHILD_KINDS for what in ("count", "cores", "rss_bytes")),
    "available_bytes", "swap_used_bytes", "load", "allowed_busy", "quota_used", "stopped_by_quota",
)  # fmt: skip


@dataclass(frozen=True)
class ChildrenLoad:
    """Children of one kind together: how many, the cores that they kept busy, their memory (pages that they share in each)."""

    count: int = 0
    cores: float = 0.0
    rss_bytes: float = 0.0


@dataclass(frozen=True)
class Sample:
    """The machine over `interval_s` seconds until `time_s`, shares from 0 to 1; None is what the system does not report.

    `cores` of a process is CPU seconds a second: 2.0 is two cores kept busy. `allowed` are the CPUs that this process may use,
    where those are not all; `quota_used` is the share of the container's quota of CPU time, `stopped_by_quota` that of
    the periods (mostly of a tenth of a second) in which it was used up and everything in the container had to wait.
    """

    time_s: float
    interval_s: float | None
    cpus: tuple[int, ...]
    busy: tuple[float | None, ...]
    stolen: float | None
    waiting_for_disk: float | None
    process_cores: float | None
    process_rss_bytes: float
    children: tuple[tuple[ChildKind, ChildrenLoad], ...]
    memory_bytes: float
    available_bytes: float
    swap_used_bytes: float
    load: float | None
    gpus: tuple[GpuLoad, ...] = ()
    allowed: tuple[int, ...] = ()
    quota_cores: float | None = None
    quota_used: float | None = None
    stopped_by_quota: float | None = None

    @property
    def cpu_busy(self) -> float | None:
        """The share of all CPUs that was busy."""
        return _mean(self.busy)

    @property
    def allowed_busy(self) -> float | None:
        """The share of the CPUs that this process may use, whoever used it; None where it may use all."""
        of_cpu = dict(zip(self.cpus, self.busy, strict=True))
        return _mean(of_cpu[cpu] for cpu in self.allowed)

    @property
    def used_bytes(self) -> float:
        """Memory that is not available to programs any more."""
        return self.memory_bytes - self.available_bytes

    def of_kind(self, kind: ChildKind) -> ChildrenLoad:
        """The children of one kind; none is none at all."""
        return dict(self.children).get(kind, ChildrenLoad())

    def row(self, cpus: tuple[int, ...], gpus: int) -> list[float]:
        """The values in the order of `columns`; what is not known is NaN."""
        of_cpu = dict(zip(self.cpus, self.busy, strict=True))
        children = [self.of_kind(kind) for kind in CHILD_KINDS]
        host = (
            self.time_s, self.interval_s, self.cpu_busy, self.stolen, self.waiting_for_disk, self.process_cores,
            self.process_rss_bytes, *(value for each in children for value in (each.count, each.cores, each.rss_bytes)),
            self.available_bytes, self.swap_used_bytes, self.load,
            self.allowed_busy, self.quota_used, self.stopped_by_quota,
        )  # fmt: skip
        of_gpus = [value for gpu in self.gpus[:gpus] for value in _gpu_values(gpu)]
        of_gpus += [None] * (gpus * len(GPU_COLUMNS) - len(of_gpus))
        values = (*host, *(of_cpu.get(cpu) for cpu in cpus), *of_gpus)
        return [math.nan if value is None else float(value) for value in values]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self) | {
            "children": {kind: asdict(load) for kind, load in self.children},
            "cpu_busy": self.cpu_busy,
            "allowed_busy": self.allowed_busy,
        }


def columns(cpus: tuple[int, ...], gpus: int) -> tuple[str, ...]:
    """The names of the values of a row.

    >>> columns((0, 1), 1)[-11:-9]
    ('cpu1_busy', 'gpu0_busy')
    """
    return (
        *HOST_COLUMNS,
        *(f"cpu{cpu}_busy" for cpu in cpus),
        *(f"gpu{gpu}_{name}" for gpu in range(gpus) for name in GPU_COLUMNS),
    )


def sample_between(
    before: HostCounters | None, after: HostCounters, gpus: tuple[GpuLoad, ...] = ()
) -> Sample:
    """What happened between two readings; with nothing before, only what needs no time is known."""
    interval_s = after.time_s - before.time_s if before is not None else 0.0
    if before is None or interval_s <= 0:
        return Sample(
            after.time_s, None, after.cpus, (None,) * len(after.cpus), None, None, None, after.process_rss_bytes,
            _children(None, after, 0.0), after.memory_bytes, after.available_bytes, after.swap_used_bytes, after.load, gpus,
            _narrower(after), after.quota_cores,
        )  # fmt: skip
    all_total = after.all_total - before.all_total
    return Sample(
        after.time_s, interval_s, after.cpus, _busy(before, after),
        _share(after.stolen - before.stolen, all_total), _share(after.waiting - before.waiting, all_total),
        (after.process_cpu_s - before.process_cpu_s) / interval_s, after.process_rss_bytes,
        _children(before, after, interval_s),
        after.memory_bytes, after.available_bytes, after.swap_used_bytes, after.load, gpus,
        _narrower(after), after.quota_cores, _quota_used(before, after, interval_s),
        _share(after.stopped - before.stopped, after.periods - before.periods),
    )  # fmt: skip


def _busy(before: HostCounters, after: HostCounters) -> tuple[float | None, ...]:
    """The share of each CPU; one that was off-line before has none yet."""
    counted = dict(zip(before.cpus, zip(before.busy, before.total, strict=True), strict=True))
    shares = []
    for cpu, busy, total in zip(after.cpus, after.busy, after.total, strict=True):
        busy_before, total_before = counted.get(cpu, (busy, total))
        shares.append(_share(busy - busy_before, total - total_before))
    return tuple(shares)


def _narrower(counters: HostCounters) -> tuple[int, ...]:
    """The CPUs that this process may use; none where it may use all that there are."""
    allowed = tuple(cpu for cpu in counters.cpus if cpu in set(counters.allowed))
    return allowed if len(allowed) < len(counters.cpus) else ()


def _quota_used(before: HostCounters, after: HostCounters, interval_s: float) -> float | None:
    if before.quota_used_s is None or after.quota_used_s is None or not after.quota_cores:
        return None
    return _share(after.quota_used_s - before.quota_used_s, after.quota_cores * interval_s)


def _mean(shares: Iterable[float | None]) -> float | None:
    known = [each for each in shares if each is not None]
    return sum(known) / len(known) if known else None


def _share(part: float, whole: float) -> float | None:
    """Between 0 and 1: the kernel's counters of idle and waiting may step back a little."""
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else None


def _children(
    before: HostCounters | None, after: HostCounters, interval_s: float
) -> tuple[tuple[ChildKind, ChildrenLoad], ...]:
    """By kind. Of a child seen for the first time no CPU time is of this interval, unless it is known to have begun in it."""
    counted = {child.pid: child.cpu_s for child in before.children} if before is not None else {}
    found = []
    for kind in CHILD_KINDS:
        of_kind = [child for child in after.children if child.kind == kind]
        cpu_s = sum(max(0.0, child.cpu_s - _counted_before(child, counted)) for child in of_kind)
        rss = float(sum(child.rss_bytes for child in of_kind))
        found.append((kind, ChildrenLoad(len(of_kind), cpu_s / interval_s if interval_s > 0 else 0.0, rss)))
    return tuple(found)


def _counted_before(child: ChildCounters, counted: dict[int, float]) -> float:
    return counted.get(child.pid, 0.0 if child.began_now else child.cpu_s)


def _gpu_values(gpu: GpuLoad) -> tuple[float | None, ...]:
    return (
        gpu.busy, gpu.memory_used_bytes, gpu.power_w, gpu.temperature_c, gpu.sm_mhz, float(bool(gpu.slowed_by)),
        gpu.pcie_in_bytes_s, gpu.pcie_out_bytes_s, gpu.nvlink_in_bytes_s, gpu.nvlink_out_bytes_s,
    )  # fmt: skip
