"""What this machine can do at most, measured once: FLOP/s by dtype and bytes/s."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DevicePeaks:
    """The highest rates one device reached.

    `flops_per_s` are (dtype, rate); on CUDA "tf32" is float32 with tensor cores. `bytes_per_s` is memory bandwidth;
    `cache_bytes_per_s` is for data of up to `cache_bytes`, which stays in the caches; 0 where it was not measured.
    """

    device: str  # "cpu", "cuda:0"
    name: str
    threads: int  # 0 on a GPU
    flops_per_s: tuple[tuple[str, float], ...]
    bytes_per_s: float
    cache_bytes: int = 0
    cache_bytes_per_s: float = 0.0


@dataclass(frozen=True)
class Peaks:
    """Measured peaks of every device of this machine."""

    devices: tuple[DevicePeaks, ...]
    torch: str
    measured: str  # date and time, ISO
    seconds: float  # what measuring took
