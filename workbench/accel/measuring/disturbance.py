"""What other programs took of the CPUs while something was measured, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accel.units import percent

WORTH_SAYING = 1.15  # times as long as on a quiet machine


@dataclass(frozen=True)
class Disturbance:
    """The share of these CPUs that others used, and how many cores the measured program wants.

    >>> print(Disturbance(share=0.6, cpus=2, wanted=2))
    Other programs used 60 % of the 2 CPUs in that time: times are up to 2.5 times as long as on a quiet machine.
    """

    share: float
    cpus: int
    wanted: int

    @property
    def cost(self) -> float:
        """How many times as long everything may have taken: the cores that are wanted over those that are left."""
        left = max(self.cpus * (1.0 - self.share), 0.05)
        return max(min(self.wanted, self.cpus) / left, 1.0)

    def __bool__(self) -> bool:
        """Whether it is worth a line."""
        return self.cost >= WORTH_SAYING

    def __str__(self) -> str:
        return (
            f"Other programs used {percent(self.share, 0)} of the {self.cpus} CPUs in that time: "
            f"times are up to {self.cost:.1f} times as long as on a quiet machine."
        )


def worst(found: Sequence[Disturbance]) -> Disturbance | None:
    """The one that cost most, if any is worth a line."""
    return max((each for each in found if each), key=lambda each: each.cost, default=None)
