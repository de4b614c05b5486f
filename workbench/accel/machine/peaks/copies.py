"""How fast data goes from one device to another: measured rates by direction and by the host's kind of memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, Any

from accel.machine.peaks import timing
from accel.units import gigabytes

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class CopyPeak:
    """The highest rate of copies from one device to another, and the shortest time of a small one.

    `memory` is what the host's side was, "pinned" or "pageable", and "" between GPUs; there `route` says whether one GPU reads
    the other's memory ("peer access") or the data goes "through the host". Bytes count once; `small_us` is for 4 KiB,
    from the call until the data is there.
    """

    source: str  # "cpu", "cuda:0"
    target: str
    bytes_per_s: float
    small_us: float
    memory: str = ""
    route: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Which copy it is."""
        return (self.source, self.target, self.memory)

    def higher(self, other: CopyPeak | None) -> CopyPeak:
        """The higher rate and the shorter time."""
        if other is None:
            return self
        rate, small = max(self.bytes_per_s, other.bytes_per_s), min(self.small_us, other.small_us)
        return replace(self, bytes_per_s=rate, small_us=small)

    def __str__(self) -> str:
        how = ", ".join(filter(None, (self.memory, self.route)))
        return f"{self.source} to {self.target}, {how}: {gigabytes(self.bytes_per_s)}, 4 KiB in {self.small_us:,.3g} µs"


@dataclass(frozen=True)
class Copies:
    """Every copy between two devices that was measured, and in words what could not be.

    >>> accel.peaks().copies.rate("cpu", "cuda:0", pinned=True)
    2.5e10
    """

    rows: tuple[CopyPeak, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Copies:
        """What `to_dict` gave."""
        return cls(tuple(CopyPeak(**row) for row in values["rows"]), tuple(map(str, values["notes"])))

    def to_dict(self) -> dict[str, Any]:
        """Every copy as plain values: bytes/s and microseconds."""
        return {"rows": [asdict(row) for row in self.rows], "notes": list(self.notes)}

    def of(self, source: str, target: str, *, pinned: bool = False) -> CopyPeak | None:
        """The copy from one device to another, None where it was not measured; between GPUs nothing is pinned."""
        memory = "" if "cpu" not in (source, target) else "pinned" if pinned else "pageable"
        return next((row for row in self.rows if row.key == (source, target, memory)), None)

    def rate(self, source: str, target: str, *, pinned: bool = False) -> float | None:
        """Bytes/s from one device to another, each byte counted once; None where that was not measured.

        >>> accel.peaks().copies.rate("cpu", "cuda:0")     # from pageable memory
        9.1e9
        """
        found = self.of(source, target, pinned=pinned)
        return found.bytes_per_s if found else None

    def higher(self, other: Copies) -> Copies:
        """The higher rate of each; what only one of them has is kept."""
        before = {row.key: row for row in other.rows}
        rows = [row.higher(before.pop(row.key, None)) for row in self.rows]
        return Copies((*rows, *before.values()), self.notes or other.notes)

    def lines(self) -> Iterator[str]:
        """Both kinds of memory on a line."""
        pairs: dict[tuple[str, str], list[CopyPeak]] = {}
        for row in self.rows:
            pairs.setdefault((row.source, row.target), []).append(row)
        for (source, target), rows in pairs.items():
            rates = [f"{row.memory or row.route} {gigabytes(row.bytes_per_s)}" for row in rows]
            small = min(row.small_us for row in rows)
            yield f"{source} to {target}: {', '.join(rates)}; 4 KiB in {small:,.3g} µs"
        yield from self.notes


LARGE_BYTES = 64 << 20
SMALL_BYTES = 4 << 10
SHARE = 0.25  # of the budget for each direction and kind of memory
SMALL_REPEATS = 50
HOST_MEMORY = ("pinned", "pageable")
Wait = Callable[[], object]


def new_buffer(size_bytes: int, place: str) -> torch.Tensor:
    """So many bytes on a GPU, or in the host's "pinned" or "pageable" memory; every page of them is there already."""
    import torch

    is_host = place in HOST_MEMORY
    return torch.zeros(
        size_bytes, dtype=torch.uint8, device="cpu" if is_host else place, pin_memory=place == "pinned"
    )


def host_copies(
    device: str, wait: Wait, *, buffer: Callable[[int, str], torch.Tensor] = new_buffer
) -> list[CopyPeak]:
    """Between host and one device, both ways, by pinned and by pageable memory; `wait` returns when the device is done.

    >>> host_copies("cuda:0", torch.cuda.synchronize)[0]
    CopyPeak(source='cpu', target='cuda:0', bytes_per_s=2.5e10, small_us=7.9, memory='pinned', route='')
    """
    there = buffer(LARGE_BYTES, device)
    found = []
    for memory in HOST_MEMORY:
        here = buffer(LARGE_BYTES, memory)
        for source, target, names in ((here, there, ("cpu", device)), (there, here, (device, "cpu"))):
            found.append(CopyPeak(*names, *_measured(source, target, wait), memory=memory))
    return found


def peer_copies(
    devices: Iterable[str],
    wait_for: Callable[[str, str], object],
    can_access: Callable[[str, str], bool],
    *,
    buffer: Callable[[int, str], torch.Tensor] = new_buffer,
) -> Copies:
    """Between every two GPUs, both ways, and whether one reads the other's memory or the data goes through the host.

    >>> peer_copies(["cuda:0", "cuda:1"], wait_for, torch.cuda.can_device_access_peer).rate("cuda:0", "cuda:1")
    2.4e11
    """
    import torch

    found, notes = [], []
    for source, target in permutations(devices, 2):
        try:
            one, other = buffer(LARGE_BYTES, source), buffer(LARGE_BYTES, target)
        except torch.OutOfMemoryError:
            notes.append(f"{source} to {target}: too little memory is free to measure in.")
            continue
        route = "peer access" if can_access(target, source) else "through the host"
        found.append(
            CopyPeak(source, target, *_measured(one, other, partial(wait_for, source, target)), route=route)
        )
    return Copies(tuple(found), tuple(notes))


def _measured(source: torch.Tensor, target: torch.Tensor, wait: Wait) -> tuple[float, float]:
    """Bytes/s of the whole buffer, and microseconds of a small part of it; from the call until the data is there."""
    until = time.perf_counter() + SHARE * timing.BUDGET_S
    best_s = _copy_s(source, target, wait)  # the first one maps pages, and opens access between GPUs
    best_s = _copy_s(source, target, wait)
    while time.perf_counter() < until:
        best_s = min(best_s, _copy_s(source, target, wait))
    small_s = min(_copy_s(source[:SMALL_BYTES], target[:SMALL_BYTES], wait) for _ in range(SMALL_REPEATS))
    return source.numel() / best_s, small_s * 1e6


def _copy_s(source: torch.Tensor, target: torch.Tensor, wait: Wait) -> float:
    wait()
    started = time.perf_counter()
    target.copy_(source, non_blocking=True)
    wait()
    return max(time.perf_counter() - started, 1e-9)
