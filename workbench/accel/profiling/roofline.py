"""How near each operation comes to what this machine can do: its rate against the measured peaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from accel.machine.peaks import Peaks

Bound = Literal["compute", "memory"]


@dataclass(frozen=True)
class RooflinePoint:
    """One operation with one set of shapes, or one module ("" in `op` and `shapes`), per step.

    `attainable_ms` is the time that the peaks allow: the longer of computing and moving, whose name is `bound`. `share` is
    of the time of all operations whose cost is known.
    """

    op: str
    phase: str
    module: str
    shapes: str
    dtype: str
    device: str
    ms: float
    share: float
    flops: float
    bytes: float
    bound: Bound
    attainable_ms: float

    @property
    def flops_per_s(self) -> float:
        """Achieved FLOP/s."""
        return self.flops / self.ms * 1e3 if self.ms else 0.0

    @property
    def bytes_per_s(self) -> float:
        """Achieved bytes/s."""
        return self.bytes / self.ms * 1e3 if self.ms else 0.0

    @property
    def intensity(self) -> float:
        """FLOPs for each byte moved."""
        return self.flops / self.bytes if self.bytes else 0.0

    @property
    def attained(self) -> float:
        """The share of the attainable rate that was reached; above 1 the peak was measured too low."""
        return self.attainable_ms / self.ms if self.ms else 0.0


@dataclass(frozen=True)
class Roofline:
    """All points of a profile, longest first, and the peaks they are held against.

    `known_share` is the part of the operations' self time whose cost is known.
    """

    points: tuple[RooflinePoint, ...]
    modules: tuple[RooflinePoint, ...]
    peaks: Peaks
    known_share: float
    notes: tuple[str, ...] = ()
