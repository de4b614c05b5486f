"""Where a trace is from: its file, its machine, its rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel.shown_text import one_line

LONGEST_WORD, SHOWN_KINDS = 100, 4


@dataclass(frozen=True)
class TraceSource:
    """What the file says of itself; `bytes` are unpacked, `world_size` and `rank` are None for a run of one process.

    >>> print(report.source)
    trace.json.gz · 12,345 events, 4.6 MiB · host node7 · NVIDIA H100 80GB HBM3 · rank 2 of 8
    """

    path: str = ""
    bytes: int = 0
    events: int = 0
    host: str = ""
    gpus: tuple[str, ...] = ()
    rank: int | None = None
    world_size: int | None = None
    backend: str = ""
    base_ns: int = 0  # what the trace's clock counts from
    is_ours: bool = False

    def __str__(self) -> str:
        from accel.units import size

        kinds = {name: self.gpus.count(name) for name in self.gpus}
        parts = [
            one_line(Path(self.path).name),
            f"{self.events:,} events, {size(self.bytes)}",
            f"host {self.host}" if self.host else "",
            *[f"{count} × {name}" if count > 1 else name for name, count in kinds.items()][:SHOWN_KINDS],
            f"{len(kinds) - SHOWN_KINDS} more kinds of GPU" if len(kinds) > SHOWN_KINDS else "",
            ""
            if self.rank is None
            else f"rank {self.rank}" + (f" of {self.world_size}" if self.world_size else ""),
        ]
        return " · ".join(part for part in parts if part)


def read_source(
    path: Path, header: Mapping[str, Any], *, read_bytes: int, events: int, is_ours: bool
) -> TraceSource:
    """Read the head of a trace; a field of a type that torch does not write is as if it were not there."""
    told = header.get("distributedInfo")
    distributed: Mapping[str, Any] = told if isinstance(told, dict) else {}
    listed = header.get("deviceProperties")
    gpus = (
        [_word(gpu.get("name", "")) for gpu in listed if isinstance(gpu, dict)]
        if isinstance(listed, list)
        else []
    )
    return TraceSource(
        path=str(path), bytes=read_bytes, events=events, host=_word(header.get("host_name", "")),
        gpus=tuple(filter(None, gpus)), rank=_count(distributed.get("rank")),
        world_size=_count(distributed.get("world_size")), backend=_word(distributed.get("backend", "")),
        base_ns=_count(header.get("baseTimeNanoseconds")) or 0, is_ours=is_ours,
    )  # fmt: skip


def _word(value: Any) -> str:
    return one_line(str(value), LONGEST_WORD)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62 else None
