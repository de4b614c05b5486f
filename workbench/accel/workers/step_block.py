"""How many steps a variant takes each time its turn comes: first some that are not timed, then those that are.

A variant whose turn comes finds the caches full of the other's data and, for some milliseconds, the cores busy with the
other's OpenMP threads, which spin before they sleep. That costs each side about the same time, so it shrinks a speed-up:
on the course's CNN (20 ms a step, 2 cores) the first step of a turn took 5 to 6 ms more and the second up to 1.5 ms,
and a plan that makes training 2.6 times as fast looked 2.1 times as fast. From the third step on, steps are as long
as in a loop without interruptions. (Measured with blocks of eight steps, over four relaunches.)

Where batches are made in the background, steps are not alike: some find a batch ready and some wait for several, and the first
of an epoch waits for the workers to start. A turn is whole epochs then, or at least many steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel.plans.plan import Plan
    from accel.workers.messages import Load

_SETTLE_S = 0.015  # longer than OpenMP threads spin and caches need
_TIMED_S = 0.06
_MOST_STEPS = 32  # of each sort: a turn stays short even where a step takes microseconds
_LEAST_PIPELINE_S, _MOST_PIPELINE_S = 0.5, 1.5  # of timed steps whose batches are made in the background


@dataclass(frozen=True)
class Pipeline:
    """How batches are made in the background: steps per epoch (0: unknown) and the largest number of worker processes.

    >>> Pipeline(epoch_steps=20, workers=4).ahead
    8

    `has_threads`: threads may make them, which go on during the turns of other variants (worker processes are stopped).
    """

    epoch_steps: int = 0
    workers: int = 0
    has_threads: bool = False

    @property
    def ahead(self) -> int:
        """Batches that lie ready when workers had nothing else to do, at torch's usual `prefetch_factor`."""
        return 2 * self.workers

    @classmethod
    def of(cls, plans: Iterable[Plan], load: Load) -> Pipeline | None:
        """What the cell and these plans have; None if all of them make each batch when the step asks for it."""
        entries = [entry for plan in plans for entry in plan.entries if entry.layer == "data"]
        if not entries and not load.makes_ahead:
            return None
        workers = max([load.loader_workers, *(getattr(entry, "n", 0) for entry in entries)])
        return cls(load.epoch_steps, workers, has_threads=load.makes_ahead and not load.loader_workers)


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
    def of(cls, step_s: float, pipeline: Pipeline | None = None) -> StepBlock:
        """The block for steps that take so many seconds: from 64 steps of microseconds to a single one of a second.

        With a pipeline, the block times whole epochs if they are short, else half a second of steps. It times at least one step
        per worker, because workers deliver together, unless that takes too long.
        """
        if pipeline is None and step_s >= 1.0:  # some milliseconds more are nothing to it
            return cls()
        least_settle = 2 if step_s < 0.1 else 1
        step_s = max(step_s, 1e-6)
        settle = min(max(math.ceil(_SETTLE_S / step_s), least_settle), _MOST_STEPS)
        timed = min(max(math.ceil(_TIMED_S / step_s), 1), _MOST_STEPS)
        if pipeline is None:
            return cls(settle, timed)
        epoch, most = pipeline.epoch_steps, max(1, int(_MOST_PIPELINE_S / step_s))
        timed = max(timed, math.ceil(_LEAST_PIPELINE_S / step_s), min(pipeline.workers, most))
        if pipeline.has_threads:  # what they made meanwhile is used up first
            settle = max(settle, math.ceil(_LEAST_PIPELINE_S / step_s))
        if epoch and epoch * step_s <= _MOST_PIPELINE_S:
            timed = epoch * math.ceil(timed / epoch)
        return cls(settle, timed)
