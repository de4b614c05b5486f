"""What a machine can do at most: FLOP/s by dtype, bytes/s, copies and all-reduce."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from accel.machine.peaks.all_reduces import AllReduces
from accel.machine.peaks.copies import Copies
from accel.machine.peaks.device_peaks import DevicePeaks
from accel.shown import Shown


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
    def from_dict(cls, told: dict[str, Any]) -> Peaks:
        """What `to_dict` gave."""
        all_reduces = told["all_reduces"]
        return cls(**told | {
            "devices": tuple(map(DevicePeaks.from_dict, told["devices"])),
            "copies": Copies.from_dict(told["copies"]),
            "all_reduces": all_reduces and AllReduces.from_dict(all_reduces),
            "notes": tuple(told["notes"]),
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
