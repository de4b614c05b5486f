"""What else went on while something was measured, other programs or a CPU quota, and what that costs in time and certainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from accel.units import percent

WORTH_SAYING = 1.15  # times as long, or as wide, as on a quiet machine
CORES_WORTH_SAYING = 0.4  # that others kept busy, also where a core was left for each thread
STOPPED_WORTH_SAYING = 0.05  # of the periods


@dataclass(frozen=True)
class Disturbance:
    """The share of these CPUs that others used, and how many cores the measured program wants.

    >>> print(Disturbance(share=0.6, cpus=2, wanted=2))
    This machine was busy: other programs used 60 % of the 2 CPUs. Times are up to 2.5 times as long as on a quiet machine.

    Args:
        widened: How many times as wide the intervals are as on a quiet machine; None where that is not known.
        stopped: The share of periods in which the container's CPU quota, of `quota_cores`, was used up.
    """

    share: float
    cpus: int
    wanted: int
    widened: float | None = None
    stopped: float = 0.0
    quota_cores: float | None = None

    @property
    def cost(self) -> float:
        """How many times as long everything may have taken: the cores that are wanted over those that are left."""
        left = max(self.cpus * (1.0 - self.share), 0.05)
        return max(min(self.wanted, self.cpus) / left, 1.0)

    @property
    def is_busy(self) -> bool:
        """Whether other programs are worth a line."""
        return self.cost >= WORTH_SAYING or self.share * self.cpus >= CORES_WORTH_SAYING

    def __bool__(self) -> bool:
        """Whether anything is worth a line."""
        return self.is_busy or self.stopped >= STOPPED_WORTH_SAYING

    def __str__(self) -> str:
        lines = []
        if self.is_busy:
            lines.append(
                f"This machine was busy: other programs used {percent(self.share, 0)} of the {self.cpus} CPUs."
            )
        if self.stopped >= STOPPED_WORTH_SAYING:
            lines.append(
                f"The CPU quota of {self.quota_cores or 0:g} cores stopped everything in {percent(self.stopped, 0)} of its "
                "periods: these times are only valid under this quota."
            )
        longer = f"Times are up to {_times(self.cost)} times as long as on a quiet machine"
        if self.cost >= WORTH_SAYING:
            lines.append(f"{longer}.")
        elif self.is_busy:
            lines.append("This hardly changed the times.")
        if self.widened is not None:
            wider = f"{_times(self.widened)} times as wide as on a quiet machine"
            is_wider = self.widened >= WORTH_SAYING
            lines.append(f"Intervals are {wider if is_wider else 'as narrow as on a quiet machine'}.")
        return " ".join(lines)


def _times(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"


def worst(found: Sequence[Disturbance], widened: float | None = None) -> Disturbance | None:
    """The disturbance that cost most time, None if none is worth a line; `widened` is what all of them cost in certainty."""
    dearest = max(
        (each for each in found if each),
        key=lambda each: (each.cost, each.stopped, each.share),
        default=None,
    )
    return replace(dearest, widened=widened) if dearest else None
