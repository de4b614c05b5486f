"""What a rank tells of its training: a line of the shared page, written as it goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from accel.distributed.ranks.rank_page import PHASES, RankPage
from accel.distributed.ranks.resident_memory import resident_bytes
from accel.distributed.trials.evaluation_clock import EvaluationClock
from accel.workload.loop_record import samples_in

_STEPS_BETWEEN_READING_MEMORY = 20


class StepLane:
    """A rank's lane of the page: phase, steps, loss, samples; with `steps`, all ranks stop after so many.

    >>> lane = StepLane(page, rank=0); lane.phase("forward"); lane.stepped(loss)

    Its time begins with the first batch: what the cell prepares before its loop is no training.
    """

    def __init__(self, page: RankPage, rank: int, *, steps: int = 0) -> None:
        self._page, self._rank, self._last_step = page, rank, steps
        self._evaluation = EvaluationClock()
        self._samples = 0
        self._clock, self._has_batches = time.perf_counter(), False
        self.steps, self.first_step_at = 0, float("nan")

    def phase(self, name: str) -> None:
        """This begins now."""
        self._evaluation.phase(name)
        self._page.write(self._rank, phase=PHASES.index(name))
        self._page.add(self._rank, beats=1)

    def waited(self, seconds: float) -> None:
        """So long for other ranks."""
        self._page.add(self._rank, communication_s=seconds)

    def took(self, batch: Any) -> None:
        """A batch to train on."""
        if not self._has_batches and not self.steps:
            self._evaluation.taken()
            self._clock = time.perf_counter()
        self._has_batches = True
        self._evaluation.batch(is_there=True)
        self._samples += samples_in(batch)

    def is_done_with_batch(self) -> None:
        """The loop comes round for the next one."""
        self._evaluation.batch(is_there=False)
        self.phase("data")

    def evaluates(self, begins: bool) -> None:
        """A loop over data that is not trained on begins or ends."""
        self._evaluation.loop(begins=begins)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """While entered, the rank does something that is none of its training's."""
        began = time.perf_counter()
        yield
        self._clock += time.perf_counter() - began

    def forget_samples(self) -> None:
        """What was read since the last step was not trained on."""
        self._samples = 0

    def stepped(self, loss: Any) -> bool:
        """An optimizer step is done; gives whether all ranks stop here."""
        self.steps += 1
        is_last = self.steps == self._last_step
        if is_last:
            _catch_up()  # before the time is taken, which would be that of launching
        now = time.perf_counter()
        if self.steps == 1:
            self.first_step_at = time.monotonic()
        if loss is not None and (loss.device.type == "cpu" or self.steps % 20 == 1):
            self._page.write(self._rank, loss=float(loss))  # on a GPU this waits for it
        self._page.write(self._rank, step=self.steps, step_ms=(now - self._clock) * 1e3)
        evaluated = self._evaluation.taken()
        if self.steps == 1:
            self._page.write(self._rank, first_step_s=now - self._clock - evaluated)
        self._page.add(
            self._rank, seconds=now - self._clock, samples=self._samples, beats=1, evaluation_s=evaluated
        )
        self._samples, self._clock = 0, now
        if self.steps % _STEPS_BETWEEN_READING_MEMORY == 1:
            self._page.write(self._rank, memory_bytes=resident_bytes())
        return self._page.stops_after(self._rank, self.steps, _catch_up) or is_last


def _catch_up() -> None:
    """Wait for what a GPU has still to do."""
    import torch

    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
