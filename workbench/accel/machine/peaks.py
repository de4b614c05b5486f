"""What this machine can do at most, measured once and stored: FLOP/s by dtype, and bytes/s."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

BUSY = "Other work had the cores meanwhile: these are too low, and are measured again the next time."
WAY = 3  # to be counted up when peaks are measured in another way: those stored are then measured again


@dataclass(frozen=True)
class DevicePeaks:
    """The highest rates one device reached.

    `flops_per_s` are (dtype, rate); on CUDA "tf32" is float32 with tensor cores. `bytes_per_s` is memory bandwidth, bytes
    read and written together; `cache_bytes_per_s` is for data of up to `cache_bytes`, which stays in the largest cache, and
    `core_cache_bytes_per_s` for up to `core_cache_bytes`, which stays in the cores' own (0: the device has none).
    """

    device: str  # "cpu", "cuda:0"
    name: str
    threads: int  # 0 on a GPU
    flops_per_s: tuple[tuple[str, float], ...]
    bytes_per_s: float
    cache_bytes: int = 0
    cache_bytes_per_s: float = 0.0
    core_cache_bytes: int = 0
    core_cache_bytes_per_s: float = 0.0

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> DevicePeaks:
        """What `to_dict` gave."""
        rates = tuple((str(dtype), float(rate)) for dtype, rate in told["flops_per_s"].items())
        return cls(**told | {"flops_per_s": rates})

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain values; FLOP/s as a dictionary by dtype."""
        return asdict(self) | {"flops_per_s": dict(self.flops_per_s)}

    def flop_rate(self, dtype: str) -> float:
        """The peak for a dtype; float16 is as fast as bfloat16, anything not measured at most as fast as float32."""
        rates = dict(self.flops_per_s)
        return rates.get({"float16": "bfloat16"}.get(dtype, dtype), rates["float32"])

    def byte_rate(self, moved_bytes: float) -> float:
        """The peak for an operation that moves so many bytes: what fits into a cache may come from there."""
        levels = (
            (self.core_cache_bytes, self.core_cache_bytes_per_s),
            (self.cache_bytes, self.cache_bytes_per_s),
        )
        return max(self.bytes_per_s, *(rate for size, rate in levels if moved_bytes <= size), 0.0)

    def __str__(self) -> str:
        threads = f", {self.threads} thread{'s' if self.threads > 1 else ''}" if self.threads else ""
        rates = [f"{dtype} {rate / 1e9:,.3g} GFLOP/s" for dtype, rate in self.flops_per_s]
        rates.append(f"memory {self.bytes_per_s / 1e9:,.3g} GB/s")
        if self.cache_bytes_per_s:
            rates.append(f"caches {self.cache_bytes_per_s / 1e9:,.3g} GB/s")
        if self.core_cache_bytes_per_s:
            rates.append(f"the cores' own {self.core_cache_bytes_per_s / 1e9:,.3g} GB/s")
        return f"{self.device} ({self.name}{threads}): {', '.join(rates)}"


@dataclass(frozen=True)
class Peaks:
    """Measured peaks of every device of this machine.

    >>> print(accel.peaks())
    Peaks measured on this machine, 2026-01-31 10:00, torch 2.15.0
      cpu (AMD EPYC 9V74, 2 threads): float32 212 GFLOP/s, bfloat16 655 GFLOP/s, memory 41 GB/s, caches 69 GB/s,
      the cores' own 190 GB/s
    """

    devices: tuple[DevicePeaks, ...]
    torch: str
    measured: str  # date and time, ISO
    seconds: float  # what measuring took
    was_busy: bool = False  # other work had the cores meanwhile: the rates are too low

    def of(self, device: str) -> DevicePeaks | None:
        """The peaks of one device, None when it was not measured."""
        return next((peaks for peaks in self.devices if peaks.device == device), None)

    def __str__(self) -> str:
        when = f"Peaks measured on this machine, {self.measured.replace('T', ' ')[:16]}, torch {self.torch}"
        lines = [when, *(f"  {peaks}" for peaks in self.devices)]
        return "\n".join([*lines, f"  {BUSY}"] if self.was_busy else lines)

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain numbers, strings, lists and dictionaries; rates in FLOP/s and bytes/s."""
        return asdict(self) | {"devices": [peaks.to_dict() for peaks in self.devices]}

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        from accel.html_parts import block, heading, table

        rows = [(rate.partition(": ")[0], rate.partition(": ")[2]) for rate in map(str, self.devices)]
        shown = block(heading(str(self).splitlines()[0]), table(["Device", "At most"], rows))
        return {"text/plain": str(self), "text/html": shown}


_measured_here: set[Path] = (
    set()
)  # once a process, also where the machine stays busy: a profile must not get slow


def peaks(*, again: bool = False) -> Peaks:
    """The peaks of this machine with the present number of threads: read from the user's cache, else measured.

    >>> peaks().of("cpu").bytes_per_s
    41.2e9

    Measuring takes under 3 s a device, and the start of one process where there is a GPU. Other work on the machine makes
    rates too low, never too high: what was measured beside it is measured again by the next process, as it is with
    `again=True`, and the higher of both rates is kept.
    """
    from accel.machine.measuring_peaks import measure_peaks

    path = peaks_path()
    stored = read_peaks(path)
    if stored is not None and not again and (not stored.was_busy or path in _measured_here):
        return stored
    _measured_here.add(path)
    measured = measure_peaks()
    found = measured if stored is None else _higher(measured, stored)
    _store(found, path)
    return found


def peaks_path() -> Path:
    """Where the peaks lie that belong to this processor, thread count, GPUs and torch."""
    import torch

    from accel.machine.reading import read_machine

    machine = read_machine()
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    setup = [WAY, machine.cpu_model, machine.usable_cores, torch.get_num_threads(), torch.__version__, gpus]
    name = hashlib.sha256(json.dumps(setup).encode()).hexdigest()[:12]
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "accel" / f"peaks-{name}.json"


def read_peaks(path: Path) -> Peaks | None:
    """Stored peaks; None when there are none or the file is not one of ours, which is then measured again."""
    try:
        told = json.loads(path.read_text())
        devices = tuple(map(DevicePeaks.from_dict, told["devices"]))
        found = Peaks(**told | {"devices": devices})
        is_whole = all("float32" in dict(one.flops_per_s) and one.bytes_per_s > 0 for one in devices)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return found if devices and is_whole else None


def _store(found: Peaks, path: Path) -> None:
    """Written whole or not at all; where the folder cannot be written, the next process measures again."""
    draft = path.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_text(json.dumps(found.to_dict()))
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def _higher(new: Peaks, old: Peaks) -> Peaks:
    """The higher rate of each kind."""

    def best(mine: DevicePeaks) -> DevicePeaks:
        theirs = old.of(mine.device)
        if theirs is None:
            return mine
        before = dict(theirs.flops_per_s)
        return replace(
            mine,
            flops_per_s=tuple((dtype, max(rate, before.get(dtype, 0.0))) for dtype, rate in mine.flops_per_s),
            bytes_per_s=max(mine.bytes_per_s, theirs.bytes_per_s),
            cache_bytes_per_s=max(mine.cache_bytes_per_s, theirs.cache_bytes_per_s),
            core_cache_bytes_per_s=max(mine.core_cache_bytes_per_s, theirs.core_cache_bytes_per_s),
        )

    return replace(new, devices=tuple(map(best, new.devices)))
