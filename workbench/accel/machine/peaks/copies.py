"""How fast data goes from one device to another: measured rates by direction and by the host's kind of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from accel.machine.peaks.device_peaks import gigabytes


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
    def from_dict(cls, told: dict[str, Any]) -> Copies:
        """What `to_dict` gave."""
        return cls(tuple(CopyPeak(**row) for row in told["rows"]), tuple(map(str, told["notes"])))

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
