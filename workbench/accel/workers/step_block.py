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
_LONGEST_CYCLE, _LONGEST_CYCLE_S = 24, 10.0  # steps, seconds: longer turns would leave too few rounds
_MOST_AHEAD, _LONGEST_DRAIN_S = 64, 2.0  # batches in a thread's queue; time to use them up


@dataclass(frozen=True)
class Pipeline:
    """How batches are made in the background: steps per epoch (0: unknown) and the largest number of worker processes.

    >>> Pipeline(epoch_steps=20, workers=4).ahead
    8

    Workers that started together finish together: with four workers, a step waits for one batch, and the next three are
    ready. `cycle` (steps) is a multiple of every variant's number of workers, or the largest number if that multiple exceeds
    `_LONGEST_CYCLE`.

    `has_threads`: threads may make the batches; unlike worker processes, they are not stopped during other variants' turns.
    """

    epoch_steps: int = 0
    workers: int = 0
    has_threads: bool = False
    cycle: int = 1

    @property
    def ahead(self) -> int:
        """Batches that idle workers have prefetched, at torch's default `prefetch_factor`."""
        return 2 * self.workers

    @classmethod
    def of(cls, plans: Iterable[Plan], load: Load) -> Pipeline | None:
        """The pipeline of the cell and these plans; None if all of them make each batch on demand."""
        entries = [entry for plan in plans for entry in plan.entries if entry.layer == "data"]
        if not entries and not load.makes_ahead:
            return None
        counts = {load.loader_workers, *(getattr(entry, "n", 0) for entry in entries)} - {0}
        cycle = math.lcm(*counts)
        has_threads = load.has_threads or (load.makes_ahead and not load.loader_workers)
        cycle = cycle if cycle <= _LONGEST_CYCLE else max(counts)
        return cls(load.epoch_steps, max(counts, default=0), has_threads=has_threads, cycle=cycle)


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

        With a pipeline, the block times whole epochs if they are short, otherwise at least half a second of steps in whole
        cycles. With `has_threads`, the settle steps first consume the batches that threads made during other variants' turns.
        """
        if pipeline is None and step_s >= 1.0:  # some milliseconds more are nothing to it
            return cls()
        least_settle = 2 if step_s < 0.1 else 1
        step_s = max(step_s, 1e-6)
        settle = min(max(math.ceil(_SETTLE_S / step_s), least_settle), _MOST_STEPS)
        timed = min(max(math.ceil(_TIMED_S / step_s), 1), _MOST_STEPS)
        if pipeline is None:
            return cls(settle, timed)
        epoch, unit = pipeline.epoch_steps, pipeline.cycle
        if unit * step_s > _LONGEST_CYCLE_S:
            unit = max(pipeline.workers, 1)  # never less: turns would always time the same part of a cycle
        timed = max(timed, math.ceil(_LEAST_PIPELINE_S / step_s))
        if pipeline.has_threads:
            settle = max(settle, min(_MOST_AHEAD, math.ceil(_LONGEST_DRAIN_S / step_s)))
        if epoch and epoch * step_s <= _MOST_PIPELINE_S:
            unit = epoch
        return cls(settle, unit * math.ceil(timed / unit))
