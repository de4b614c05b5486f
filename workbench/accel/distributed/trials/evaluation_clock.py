"""How long a cell evaluated between two steps of its training, so that a time of training can leave it out."""

from __future__ import annotations

import time


class EvaluationClock:
    """Runs while a loader that does not train is iterated, and from a model's call in evaluation mode between two batches.

    >>> clock = EvaluationClock()
    >>> clock.loop(begins=True); clock.loop(begins=False)
    >>> clock.taken()
    2.1e-06

    A frozen model that is called for a batch of the training is part of it.
    """

    def __init__(self) -> None:
        self._loops, self._has_batch, self._is_model_evaluating = 0, False, False
        self._since: float | None = None
        self._seconds = 0.0

    def loop(self, *, begins: bool) -> None:
        """A loop over a loader that does not train begins or ends."""
        self._loops += 1 if begins else -1
        self._turn()

    def batch(self, *, is_there: bool) -> None:
        """The training takes a batch, or is done with it."""
        self._has_batch = is_there

    def phase(self, name: str) -> None:
        """The rank does something else now."""
        self._is_model_evaluating = name == "evaluation" and not self._has_batch
        self._turn()

    def taken(self) -> float:
        """Seconds since it was last asked."""
        self._turn(again=True)
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def _turn(self, *, again: bool = False) -> None:
        now, is_on = time.perf_counter(), self._loops > 0 or self._is_model_evaluating
        if self._since is not None and (again or not is_on):
            self._seconds += now - self._since
            self._since = None
        if is_on and self._since is None:
            self._since = now
