"""Where a rank is in the cell's loops over loaders that are shared out: which loop, which batch, and how the last one ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Loop:
    """One loop, counted since the cell began; `skipped` is its last batch without a backward pass."""

    number: int
    name: str
    epoch: int
    batch: int = 0
    skipped: int = 0
    passes: int = 0
    ended_early: bool = False


class Whereabouts:
    """Loops as they begin and end.

    >>> with whereabouts.in_loop("loader") as loop:
    ...     whereabouts.took(loop, passes=0)
    >>> whereabouts.ended.batch
    1
    """

    def __init__(self) -> None:
        self.loops: list[Loop] = []
        self._epochs: Counter[str] = Counter()
        self.here = self.ended = Loop(0, "", 0)

    @contextmanager
    def in_loop(self, name: str) -> Iterator[Loop]:
        """While it goes on; a loop that is left by break ends early."""
        self._epochs[name] += 1
        loop = Loop(len(self.loops) + 1, name, self._epochs[name])
        self.loops.append(loop)
        try:
            yield loop
        except GeneratorExit:
            loop.ended_early = True
            raise
        finally:
            self.ended = loop

    def took(self, loop: Loop, passes: int) -> None:
        """A batch of it, after so many backward passes in all."""
        if loop.batch and passes == loop.passes:
            loop.skipped = loop.batch
        loop.batch, loop.passes, self.here = loop.batch + 1, passes, loop
