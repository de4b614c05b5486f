"""A sample in words: one tile a thing that is watched, the same in a terminal, in HTML and in the panel; LoadSnapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel.machine.cpu_lists import cpu_list
from accel.machine.telemetry.counters import CHILD_KINDS, ChildKind
from accel.machine.telemetry.gpu_load import GpuLoad
from accel.machine.telemetry.sample import Sample
from accel.shown import Shown
from accel.units import counted, percent, size

GIB = 2**30
WORTH_TELLING = 0.05  # of the CPU time: stolen, or spent waiting for a disk
NAMES: dict[ChildKind, tuple[str, str]] = {
    "loader": ("loader worker", "loader workers"),
    "trial": ("trial worker", "trial workers"),
    "other": ("other child", "other children"),
}
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Tile:
    """One thing that is watched: its name, its value now, what else is known, and its lines, each (name, share of 1)."""

    key: str
    label: str
    value: str
    detail: str
    lines: tuple[tuple[str, float | None], ...]

    def __str__(self) -> str:
        return f"{self.label} {self.value}" + (f" ({self.detail})" if self.detail else "")


def tiles(sample: Sample) -> tuple[Tile, ...]:
    """What a sample says; always the same tiles in the same order on one machine.

    >>> print(*tiles(sample), sep="; ")
    CPU 47 % (2 CPUs); memory 3.1 of 7.8 GiB; this process 1.20 cores (0.8 GiB); children none
    """
    return (
        _cpu(sample), _memory(sample), _process(sample), _children(sample), *(_gpu(gpu) for gpu in sample.gpus)
    )  # fmt: skip


def in_a_sentence(sample: Sample) -> str:
    """The whole sample for somebody who hears it."""
    return f"{'; '.join(map(str, tiles(sample)))}."


def share_of(part: float | None) -> str:
    """A share as it is shown."""
    return UNKNOWN if part is None else percent(part, 0)


def cores(count: float | None) -> str:
    """How many cores are kept busy, as it is shown."""
    return UNKNOWN if count is None else f"{count:.2f} cores"


def rate(bytes_s: float) -> str:
    """A rate of traffic as it is shown."""
    return f"{bytes_s / 1e9:.2f} GB/s" if bytes_s >= 1e8 else f"{bytes_s / 1e6:.1f} MB/s"


def of_size(used: float, whole: float) -> str:
    """A part of a size as it is shown."""
    return f"{used / GIB:.1f} of {whole / GIB:.1f} GiB"


def _cpu(sample: Sample) -> Tile:
    count = len(sample.cpus)
    detail = [counted(count, "CPU")] if count else []
    if sample.allowed:
        detail = [
            f"of the {len(sample.allowed)} of {count} CPUs that this process may use: {cpu_list(sample.allowed)}"
        ]
    if sample.quota_used is not None:
        detail.append(
            f"{share_of(sample.quota_used)} of the container's quota of {sample.quota_cores:g} cores"
        )
    if sample.stopped_by_quota:
        detail.append(f"stopped by the quota in {share_of(sample.stopped_by_quota)} of the periods")
    for share, what in (
        (sample.stolen, "taken by other machines"),
        (sample.waiting_for_disk, "waiting for a disk"),
    ):
        if share is not None and share >= WORTH_TELLING:
            detail.append(f"{share_of(share)} {what}")
    lines = tuple((f"CPU {cpu}", busy) for cpu, busy in zip(sample.cpus, sample.busy, strict=True))
    busy = sample.allowed_busy if sample.allowed else sample.cpu_busy
    return Tile("cpu", "CPU", share_of(busy), " · ".join(detail), lines)


def _memory(sample: Sample) -> Tile:
    if not sample.memory_bytes:
        return Tile("memory", "memory", UNKNOWN, "", (("memory", None),))
    swap = f"swap {size(sample.swap_used_bytes)}" if sample.swap_used_bytes >= 2**20 else ""
    share = sample.used_bytes / sample.memory_bytes
    return Tile(
        "memory", "memory", of_size(sample.used_bytes, sample.memory_bytes), swap, (("memory", share),)
    )


def _process(sample: Sample) -> Tile:
    line = _of_all(sample.process_cores, sample)
    value, detail = cores(sample.process_cores), size(sample.process_rss_bytes)
    return Tile("process", "this process", value, detail, (("this process", line),))


def _children(sample: Sample) -> Tile:
    present = [(kind, sample.of_kind(kind)) for kind in CHILD_KINDS if sample.of_kind(kind).count]
    busy = sum(load.cores for _, load in present)
    names = [f"{load.count} {NAMES[kind][load.count != 1]}" for kind, load in present]
    detail = " · ".join([*names, size(sum(load.rss_bytes for _, load in present))]) if present else ""
    value = cores(busy) if present else "none"
    return Tile("children", "its children", value, detail, (("its children", _of_all(busy, sample)),))


def _of_all(busy: float | None, sample: Sample) -> float | None:
    return None if busy is None or not sample.cpus else min(1.0, busy / len(sample.allowed or sample.cpus))


def _gpu(gpu: GpuLoad) -> Tile:
    memory = None
    detail = [f"slowed down by: {gpu.slowed_by}"] if gpu.slowed_by else []
    if gpu.memory_used_bytes is not None and gpu.memory_bytes:
        memory = gpu.memory_used_bytes / gpu.memory_bytes
        detail.append(of_size(gpu.memory_used_bytes, gpu.memory_bytes))
    if gpu.power_w is not None:
        of = f" of {gpu.power_limit_w:.0f}" if gpu.power_limit_w is not None else ""
        detail.append(f"{gpu.power_w:.0f}{of} W")
    if gpu.temperature_c is not None:
        detail.append(f"{gpu.temperature_c:.0f} °C")
    if gpu.sm_mhz is not None:
        detail.append(f"{gpu.sm_mhz:.0f} MHz")
    for link, into, out in (
        ("PCIe", gpu.pcie_in_bytes_s, gpu.pcie_out_bytes_s), ("NVLink", gpu.nvlink_in_bytes_s, gpu.nvlink_out_bytes_s)
    ):  # fmt: skip
        if into is not None and out is not None:
            detail.append(f"{link} {rate(into)} in, {rate(out)} out")
    lines = ((f"GPU {gpu.index} busy", gpu.busy), (f"GPU {gpu.index} memory", memory))
    return Tile(f"gpu{gpu.index}", f"GPU {gpu.index}", share_of(gpu.busy), " · ".join(detail), lines)


@dataclass(frozen=True)
class LoadSnapshot(Shown):
    """The last sample, and what is to be known about sampling here.

    >>> print(accel.monitor().snapshot())
    """

    sample: Sample
    notes: tuple[str, ...] = ()

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """What is watched, in words."""
        return tiles(self.sample)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"sample": self.sample.to_dict(), "notes": list(self.notes)}
