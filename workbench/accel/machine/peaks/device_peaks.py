"""The highest rates that one device reached: FLOP/s by dtype, bytes/s by level of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from textwrap import wrap
from typing import Any

from accel.units import counted

SAME_RATE = {"float16": "bfloat16", "float8_e5m2": "float8_e4m3fn"}  # where only the other was measured
WIDTH = 100
_INDENT = " " * 14


@dataclass(frozen=True)
class DevicePeaks:
    """The highest rates one device reached.

    `flops_per_s` are (dtype, rate); on CUDA "tf32" is float32 with tensor cores; of "int8" they are integer operations, added
    up in int32. `not_measured` are (dtype, reason). `bytes_per_s` is memory bandwidth, bytes
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
    not_measured: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> DevicePeaks:
        """What `to_dict` gave."""
        rates = tuple((str(dtype), float(rate)) for dtype, rate in told["flops_per_s"].items())
        reasons = tuple((str(dtype), str(reason)) for dtype, reason in told["not_measured"].items())
        return cls(**told | {"flops_per_s": rates, "not_measured": reasons})

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain values; FLOP/s, and why some are missing, as dictionaries by dtype."""
        named = {"flops_per_s": dict(self.flops_per_s), "not_measured": dict(self.not_measured)}
        return asdict(self) | named

    def flop_rate(self, dtype: str) -> float:
        """The peak for a dtype; one that was not measured is taken for its sibling of the same size, else for float32."""
        rates = dict(self.flops_per_s)
        return rates.get(dtype) or rates.get(SAME_RATE.get(dtype, "")) or rates["float32"]

    def byte_rate(self, moved_bytes: float) -> float:
        """The peak for an operation that moves so many bytes: what fits into a cache may come from there."""
        levels = (
            (self.core_cache_bytes, self.core_cache_bytes_per_s),
            (self.cache_bytes, self.cache_bytes_per_s),
        )
        return max(self.bytes_per_s, *(rate for size, rate in levels if moved_bytes <= size), 0.0)

    def higher(self, other: DevicePeaks | None) -> DevicePeaks:
        """The higher rate of each kind; these are of the same device."""
        if other is None:
            return self
        before, after = dict(other.flops_per_s), dict(self.flops_per_s)
        rates = {
            dtype: max(before.get(dtype, 0.0), after.get(dtype, 0.0)) for dtype in (*after, *before)
        }  # what was measured once can be done
        return replace(
            self,
            flops_per_s=tuple(rates.items()),
            not_measured=tuple(one for one in self.not_measured if one[0] not in rates),
            bytes_per_s=max(self.bytes_per_s, other.bytes_per_s),
            cache_bytes_per_s=max(self.cache_bytes_per_s, other.cache_bytes_per_s),
            core_cache_bytes_per_s=max(self.core_cache_bytes_per_s, other.core_cache_bytes_per_s),
        )

    def rows(self) -> Iterator[tuple[str, str]]:
        """What is shown of it: a word, and rates."""
        yield (
            "computing",
            ", ".join(f"{dtype} {_operations(dtype, rate)}" for dtype, rate in self.flops_per_s),
        )
        levels = (
            ("memory", self.bytes_per_s),
            ("caches", self.cache_bytes_per_s),
            ("the cores' own", self.core_cache_bytes_per_s),
        )
        yield "moving", ", ".join(f"{level} {gigabytes(rate)}" for level, rate in levels if rate)
        if self.not_measured:
            yield "not measured", "; ".join(f"{dtype}: {reason}" for dtype, reason in self.not_measured)

    @property
    def title(self) -> str:
        """The device, its name, and how many threads it was measured with."""
        threads = f", {counted(self.threads, 'thread')}" if self.threads else ""
        return f"{self.device} ({self.name}{threads})"

    def __str__(self) -> str:
        lines = [self.title]
        for word, rates in self.rows():
            lines += wrap(
                rates, WIDTH - 4, initial_indent=f"{word:<{len(_INDENT)}}", subsequent_indent=_INDENT
            )
        return "\n  ".join(lines)


def gigabytes(bytes_per_s: float) -> str:
    """A rate in words.

    >>> gigabytes(41.2e9)
    '41.2 GB/s'
    """
    return f"{bytes_per_s / 1e9:,.3g} GB/s"


def _operations(dtype: str, rate: float) -> str:
    unit = "op/s" if dtype == "int8" else "FLOP/s"
    return f"{rate / 1e12:,.3g} T{unit}" if rate >= 1e13 else f"{rate / 1e9:,.4g} G{unit}"
