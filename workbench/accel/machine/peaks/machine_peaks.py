"""What this machine can do at most, measured once and stored: FLOP/s by dtype, bytes/s, copies and all-reduce."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import wrap
from typing import Any

from accel.machine.peaks.all_reduces import AllReduces
from accel.machine.peaks.copies import Copies
from accel.machine.peaks.device_peaks import WIDTH, DevicePeaks
from accel.machine.peaks.stored import peaks_path, read_peaks, store

BUSY = "The machine was busy: these rates are underestimates, and are measured again the next time."
NO_LINKS = "All-reduce, and copies between GPUs: not measured yet, %accel peaks --links does."


@dataclass(frozen=True)
class Peaks:
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
    was_busy: bool = False  # other work had the cores or a GPU meanwhile: the rates are too low
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

    @property
    def _title(self) -> str:
        since = f" (the highest since {_minute(self.since)})" if self.since else ""
        return f"Peaks measured on this machine, {_minute(self.measured)}{since}, torch {self.torch}"

    def of_devices(self) -> list[str]:
        """The lines about devices and copies, without those about ranks: what a profile of one process is held against."""
        lines = [self._title]
        lines += [f"  {line}" for peaks in self.devices for line in str(peaks).splitlines()]
        lines += _below("Copies", self.copies.lines())
        return [
            *lines,
            *(line for note in self.notes for line in _wrapped(note)),
            *_wrapped(BUSY * self.was_busy),
        ]

    def _of_ranks(self) -> list[str]:
        if self.all_reduces is None:
            return _wrapped(NO_LINKS)
        is_told_already = self.was_busy or not self.all_reduces.was_busy
        return [*_below("All-reduce", self.all_reduces.lines()), *_wrapped(BUSY * (not is_told_already))]

    def __str__(self) -> str:
        return "\n".join([*self.of_devices(), *self._of_ranks()])

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        from accel.html_parts import block, heading, note, table

        rows = [(peaks.title, word, rates) for peaks in self.devices for word, rates in peaks.rows()]
        parts: list[object] = [heading(self._title), table(["Device", "", "At most"], rows)]
        for title, told in (("Copies", self.copies), ("All-reduce", self.all_reduces or AllReduces())):
            if lines := [line.strip() for line in told.lines()]:
                parts.append(table([title], [(line,) for line in lines]))
        was_busy = self.was_busy or (self.all_reduces is not None and self.all_reduces.was_busy)
        remarks = (*self.notes, NO_LINKS * (self.all_reduces is None), BUSY * was_busy)
        return {"text/plain": str(self), "text/html": block(*parts, *map(note, filter(None, remarks)))}


def _minute(moment: str) -> str:
    """A date and time, as it is shown."""
    return moment.replace("T", " ")[:16]


def _below(title: str, told: Iterable[str]) -> list[str]:
    """Lines below a title, which is left out with them."""
    lines = []
    for line in told:
        indent = " " * (4 + len(line) - len(line.lstrip()))
        lines += wrap(line.strip(), WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")
    return [f"  {title}", *lines] if lines else []


def _wrapped(remark: str) -> list[str]:
    return wrap(remark, WIDTH, initial_indent="  ", subsequent_indent="    ")


_measured_here: set[tuple[Path, str]] = (
    set()
)  # once a process, also where the machine stays busy: a profile must not get slow


def peaks(*, again: bool = False, links: bool = False) -> Peaks:
    """The peaks of this machine with the present number of threads: read from the user's cache, else measured.

    >>> peaks().of("cpu").bytes_per_s
    41.2e9

    Measuring takes about 3 s a device (up to three times as long while others have the cores), and the start of one process where
    there are GPUs. `links=True` adds all-reduce between processes, and copies between GPUs: some 10 s. Other work on the machine
    makes rates too low, never too high: what was measured beside it is measured again by the next process, as it is with
    `again=True`, and the higher of both rates is kept; the title then says since when. Where too little memory is free for data
    that the caches cannot keep, the rate of memory may be too high, and a note says so.
    """
    path = peaks_path()
    stored = found = read_peaks(path)
    if found is None or again or (found.was_busy and (path, "devices") not in _measured_here):
        from accel.machine.peaks.measuring import measure_peaks

        _measured_here.add((path, "devices"))
        measured = measure_peaks()
        found = measured if found is None else measured.higher(found)
    if links and _has_links_due(found, path, again):
        from accel.machine.peaks.measuring import measure_links

        _measured_here.add((path, "links"))
        copies, all_reduces = measure_links()
        found = replace(
            found, copies=copies.higher(found.copies), all_reduces=all_reduces.shorter(found.all_reduces)
        )
    if found is not stored:
        store(found, path)
    return found


def known_peaks() -> Peaks | None:
    """The peaks that are stored for this machine; None where none were measured yet, which this does not do."""
    return read_peaks(peaks_path())


def _has_links_due(found: Peaks, path: Path, again: bool) -> bool:
    if found.all_reduces is None or again:
        return True
    return found.all_reduces.was_busy and (path, "links") not in _measured_here
