"""How long an all-reduce takes: measured times by size, and the bandwidths that follow from them.

Bandwidths are those of nccl-tests (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md): the algorithmic one is
size over time; the bus one is that times 2·(n − 1)/n, so that it can be held against what a link carries, whatever n is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from accel.units import gigabytes

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class AllReducePeak:
    """The shortest time in which so many ranks had added up so many bytes of float32 each."""

    backend: str  # "gloo", "nccl"
    device: str  # "cpu", "cuda"
    ranks: int
    bytes: int
    seconds: float

    @property
    def algorithmic_bytes_per_s(self) -> float:
        """Size over time."""
        return self.bytes / self.seconds

    @property
    def bus_bytes_per_s(self) -> float:
        """What each rank had to send and receive at least, over time."""
        return self.algorithmic_bytes_per_s * traffic(self.ranks)

    def to_dict(self) -> dict[str, Any]:
        """Its fields, and both bandwidths in bytes/s."""
        derived = {
            "algorithmic_bytes_per_s": self.algorithmic_bytes_per_s,
            "bus_bytes_per_s": self.bus_bytes_per_s,
        }
        return asdict(self) | derived

    def __str__(self) -> str:
        size = f"{self.bytes // MEBIBYTE} MiB" if self.bytes >= MEBIBYTE else f"{self.bytes // 1024} KiB"
        rates = (
            f"algorithmic {gigabytes(self.algorithmic_bytes_per_s)}, bus {gigabytes(self.bus_bytes_per_s)}"
        )
        return f"{size} in {self.seconds * 1e3:,.3g} ms ({rates})"


@dataclass(frozen=True)
class AllReduces:
    """Every all-reduce that was measured between processes of this machine, and in words what could not be.

    >>> print(accel.peaks(links=True).all_reduces)
    """

    rows: tuple[AllReducePeak, ...] = ()
    notes: tuple[str, ...] = ()
    was_busy: bool = False

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> AllReduces:
        """What `to_dict` gave."""
        own = ("backend", "device", "ranks", "bytes", "seconds")
        rows = tuple(AllReducePeak(**{name: row[name] for name in own}) for row in values["rows"])
        return cls(rows, tuple(map(str, values["notes"])), bool(values["was_busy"]))

    def to_dict(self) -> dict[str, Any]:
        """Every row as plain values: seconds and bytes/s."""
        return {
            "rows": [row.to_dict() for row in self.rows],
            "notes": list(self.notes),
            "was_busy": self.was_busy,
        }

    def seconds(self, size_bytes: float, ranks: int, device: str = "cpu") -> float | None:
        """The least time of an all-reduce of so many bytes by so many ranks; None where none was measured on such a device.

        >>> accel.peaks(links=True).all_reduces.seconds(100e6, ranks=2)
        0.061

        Between two sizes it is interpolated, beyond the largest its rate goes on. Other numbers of ranks follow as a ring does:
        each rank sends 2·(n − 1)/n of the data in 2·(n − 1) turns. On one machine that is a bound from below:
        more ranks share the same memory and cores.
        """
        if ranks < 2:
            return 0.0
        rows = self._nearest(ranks, device)
        if not rows:
            return None
        measured, turn_s = rows[0].ranks, rows[0].seconds
        whole_s = _interpolated(rows, size_bytes)
        waiting_s = min(turn_s, whole_s)
        more_turns, more_data = (ranks - 1) / (measured - 1), traffic(ranks) / traffic(measured)
        return waiting_s * more_turns + (whole_s - waiting_s) * more_data

    def _nearest(self, ranks: int, device: str) -> list[AllReducePeak]:
        """Measured by as many ranks or, where none is, by the number nearest to it; smallest size first."""
        own = [row for row in self.rows if row.device == device.partition(":")[0]]
        nearest = min((row.ranks for row in own), key=lambda n: abs(n - ranks), default=0)
        return sorted((row for row in own if row.ranks == nearest), key=lambda row: row.bytes)

    def shorter(self, other: AllReduces | None) -> AllReduces:
        """The shorter time of each; what only the other has is kept. One quiet measurement of both is enough."""
        if other is None:
            return self
        best: dict[tuple[str, str, int, int], AllReducePeak] = {}
        for row in (*self.rows, *other.rows):
            key = (row.backend, row.device, row.ranks, row.bytes)
            best[key] = min(row, best.get(key, row), key=lambda one: one.seconds)
        return AllReduces(tuple(best.values()), self.notes, self.was_busy and other.was_busy)

    def lines(self) -> Iterator[str]:
        """A line for each size, below the backend and the ranks."""
        groups: dict[str, list[AllReducePeak]] = {}
        for row in self.rows:
            groups.setdefault(f"{row.backend}, {row.ranks} ranks on {row.device}", []).append(row)
        for title, rows in groups.items():
            yield f"{title}:"
            yield from (f"  {row}" for row in sorted(rows, key=lambda row: row.bytes))
        yield from self.notes

    def __str__(self) -> str:
        return "\n".join(["All-reduce", *(f"  {line}" for line in self.lines())])


def traffic(ranks: int) -> float:
    """How many times its data a rank sends, and receives, in the best all-reduce of so many ranks.

    >>> traffic(2), traffic(8)
    (1.0, 1.75)
    """
    return 2 * (ranks - 1) / ranks


def _interpolated(rows: Sequence[AllReducePeak], size_bytes: float) -> float:
    """Time over size as straight lines between what was measured; a larger size never takes less."""
    below = rows[0]
    longest_s = below.seconds
    if size_bytes <= below.bytes:
        return longest_s
    for row in rows[1:]:
        row_s = max(row.seconds, longest_s)
        if size_bytes <= row.bytes:
            return longest_s + (row_s - longest_s) * (size_bytes - below.bytes) / (row.bytes - below.bytes)
        below, longest_s = row, row_s
    return longest_s * size_bytes / below.bytes
