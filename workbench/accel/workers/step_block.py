"""How many steps a variant takes each time its turn comes: first some that are not timed, then those that are.

A variant whose turn comes finds the caches full of the other's data and, for some milliseconds, the cores busy with the
other's OpenMP threads, which spin before they sleep. That costs each side about the same time, so it shrinks a speed-up:
on the course's CNN (20 ms a step, 2 cores) the first step of a turn took 5 to 6 ms more and the second up to 1.5 ms,
and a plan that makes training 2.6 times as fast looked 2.1 times as fast. From the third step on, steps are as long
as in a loop without interruptions. (Measured with blocks of eight steps, over four relaunches.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_SETTLE_S = 0.015  # longer than OpenMP threads spin and caches need
_TIMED_S = 0.06
_MOST_STEPS = 32  # of each sort: a turn stays short even where a step takes microseconds


@dataclass(frozen=True)
class StepBlock:
    """One turn of a variant: `settle` steps that are taken but not timed, then `timed` ones.

    >>> StepBlock.of(0.020)
    StepBlock(settle=2, timed=3)
    """

    settle: int = 0
    timed: int = 1

    @property
    def steps(self) -> int:
        return self.settle + self.timed

    @classmethod
    def of(cls, step_s: float) -> StepBlock:
        """The block for steps that take so many seconds: from 64 steps of microseconds to a single one of a second."""
        if step_s >= 1.0:  # some milliseconds more are nothing to it
            return cls()
        least_settle = 2 if step_s < 0.1 else 1
        step_s = max(step_s, 1e-6)
        return cls(
            settle=min(max(math.ceil(_SETTLE_S / step_s), least_settle), _MOST_STEPS),
            timed=min(max(math.ceil(_TIMED_S / step_s), 1), _MOST_STEPS),
        )
