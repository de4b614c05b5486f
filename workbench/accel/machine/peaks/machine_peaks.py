"""What a machine and each of its devices can do at most: FLOP/s by dtype, bytes/s by level of memory, copies, all-reduce."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from textwrap import wrap
from typing import Any

from accel.machine.peaks.all_reduces import AllReduces
from accel.machine.peaks.copies import Copies
from accel.shown import Shown
from accel.units import counted, gigabytes

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
    def from_dict(cls, values: dict[str, Any]) -> DevicePeaks:
        """What `to_dict` gave."""
        rates = tuple((str(dtype), float(rate)) for dtype, rate in values["flops_per_s"].items())
        reasons = tuple((str(dtype), str(reason)) for dtype, reason in values["not_measured"].items())
        return cls(**values | {"flops_per_s": rates, "not_measured": reasons})

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


def _operations(dtype: str, rate: float) -> str:
    unit = "op/s" if dtype == "int8" else "FLOP/s"
    return f"{rate / 1e12:,.3g} T{unit}" if rate >= 1e13 else f"{rate / 1e9:,.4g} G{unit}"


@dataclass(frozen=True)
class Peaks(Shown):
    """Measured peaks of every device of this machine, and of the ways between them.

    >>> print(accel.peaks())
    Peaks measured on this machine, 2026-01-31 10:00, torch 2.15.0
      cpu (AMD EPYC 9V74, 2 threads)
        computing     float32 212 GFLOP/s, bfloat16 655 GFLOP/s, float16 19.6 GFLOP/s, float64 86.2 GFLOP/s, ...
        moving        memory 41 GB/s, caches 69 GB/s, the cores' own 190 GB/s

    `copies` are between host and GPUs and, where links were measured, between GPUs; `all_reduces` is None before that.
    """

    devices: tuple[DevicePeaks, ...]
    torch: str
    measured: str  # date and time, ISO
    seconds: float  # what measuring took
    was_busy: bool = False  # other work had the cores or a GPU: the rates are too low
    copies: Copies = field(default_factory=Copies)
    all_reduces: AllReduces | None = None
    notes: tuple[str, ...] = ()
    since: str = (
        ""  # the first of several measurements, of which the higher rates are kept; "": there was one
    )

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Peaks:
        """What `to_dict` gave."""
        all_reduces = values["all_reduces"]
        return cls(**values | {
            "devices": tuple(map(DevicePeaks.from_dict, values["devices"])),
            "copies": Copies.from_dict(values["copies"]),
            "all_reduces": all_reduces and AllReduces.from_dict(all_reduces),
            "notes": tuple(values["notes"]),
        })  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain numbers, strings, lists and dictionaries; rates in FLOP/s and bytes/s."""
        return {
            "devices": [peaks.to_dict() for peaks in self.devices], "torch": self.torch, "measured": self.measured,
            "seconds": self.seconds, "was_busy": self.was_busy, "copies": self.copies.to_dict(),
            "all_reduces": self.all_reduces and self.all_reduces.to_dict(), "notes": list(self.notes), "since": self.since,
        }  # fmt: skip

    def of(self, device: str) -> DevicePeaks | None:
        """The peaks of one device, None when it was not measured."""
        return next((peaks for peaks in self.devices if peaks.device == device), None)

    def all_reduce_s(self, size_bytes: float, ranks: int, device: str = "cpu") -> float | None:
        """The least seconds in which ranks on this machine add up so many bytes each; None where it was not measured.

        >>> accel.peaks(links=True).all_reduce_s(4 * 25_000_000, ranks=2)     # the gradients of 25 million parameters
        0.061
        """
        return self.all_reduces.seconds(size_bytes, ranks, device) if self.all_reduces else None

    def higher(self, old: Peaks) -> Peaks:
        """The higher rate of each kind; links that only the older has are kept. One quiet measurement of both is enough."""
        all_reduces = self.all_reduces.shorter(old.all_reduces) if self.all_reduces else old.all_reduces
        return replace(
            self, devices=tuple(one.higher(old.of(one.device)) for one in self.devices), all_reduces=all_reduces,
            copies=self.copies.higher(old.copies), was_busy=self.was_busy and old.was_busy,
            since=old.since or old.measured,
        )  # fmt: skip
