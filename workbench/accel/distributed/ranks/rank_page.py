"""One page of memory that a run's ranks and the kernel share: what each rank is doing, and at which step all of them stop.

A rank writes its own slots and never waits; the kernel reads them as often as it likes. No message is sent a step.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from accel.distributed.ranks.rank_words import WORD_BYTES, PageWords, RankWords

PHASES = (
    "starting", "data", "forward", "backward", "optimizer", "evaluation", "between", "done", "failed"
)  # fmt: skip
_WHOLE = ("step", "samples", "phase", "memory_bytes", "stops_at", "beats")
_REAL = ("loss", "seconds", "communication_s", "step_ms", "evaluation_s", "first_step_s")
_SLOTS = 16  # of 8 bytes, for each rank; a cache line of its own
_WANTED, _LOST = 0, 1
_FAILED = PHASES.index("failed")
_WORD_SLOTS = 16  # for each word (rank_words.py): its number, and what it says


@dataclass(frozen=True)
class RankLane:
    """What one rank is doing: steps done, samples trained on, the last loss, and of its `seconds` those spent waiting for others.

    `step_ms` is the length of its last step, `beats` grows with everything it does. Of `seconds`, `evaluation_s` went into
    evaluating, and `first_step_s` is the time of training up to the end of the first step.
    """

    rank: int
    step: int = 0
    samples: int = 0
    phase: str = "starting"
    loss: float = float("nan")
    seconds: float = 0.0
    communication_s: float = 0.0
    step_ms: float = 0.0
    memory_bytes: int = 0
    beats: int = 0
    evaluation_s: float = 0.0
    first_step_s: float = 0.0

    @property
    def samples_per_s(self) -> float:
        """Samples a second since its first step began."""
        return self.samples / self.seconds if self.seconds > 0 else 0.0

    @property
    def training_s(self) -> float:
        """Its time of training up to the last step, without evaluation."""
        return max(0.0, self.seconds - self.evaluation_s)

    @property
    def steady_samples_per_s(self) -> float:
        """Samples a second of training in the steps after the first, which builds what the others use."""
        after = self.training_s - self.first_step_s
        if self.step > 1 and after > 0:
            return self.samples * (self.step - 1) / self.step / after
        return self.samples / self.training_s if self.training_s > 0 else 0.0

    @property
    def communication_share(self) -> float:
        """The part of its time in which it did nothing but exchange gradients."""
        return min(1.0, self.communication_s / self.seconds) if self.seconds > 0 else 0.0

    @property
    def own_ms(self) -> float:
        """Of a step, the time in which it did not wait for others."""
        return 1e3 * (self.seconds - self.communication_s) / self.step if self.step else float("nan")


class RankPage:
    """The page of a run with so many ranks; made by the kernel, opened by each rank from the descriptor.

    >>> page = RankPage(ranks=2)
    >>> page.write(0, step=1, loss=0.5)
    >>> page.lane(0).step
    1
    """

    def __init__(self, ranks: int, descriptor: int | None = None) -> None:
        self._words_at = 8 * _SLOTS * (ranks + 1)
        size = self._words_at + 8 * _WORD_SLOTS * 2 * ranks
        self.ranks = ranks
        if descriptor is None:
            descriptor = os.memfd_create("accel-ranks", os.MFD_CLOEXEC)
            os.ftruncate(descriptor, size)
        self.descriptor = descriptor
        try:
            self._map = mmap.mmap(descriptor, size)
        except OSError:
            os.close(descriptor)
            raise
        self._whole = (ctypes.c_int64 * (size // 8)).from_buffer(self._map)
        self._real = (ctypes.c_double * (size // 8)).from_buffer(self._map)

    def write(self, rank: int, **values: float) -> None:
        """Set slots of a rank; each is written in one piece."""
        start = _SLOTS * (rank + 1)
        for name, value in values.items():
            if name in _WHOLE:
                self._whole[start + _WHOLE.index(name)] = int(value)
            else:
                self._real[start + len(_WHOLE) + _REAL.index(name)] = value

    def add(self, rank: int, **values: float) -> None:
        """Add to slots of a rank, which no other process writes."""
        start = _SLOTS * (rank + 1)
        for name, value in values.items():
            if name in _WHOLE:
                self._whole[start + _WHOLE.index(name)] += int(value)
            else:
                self._real[start + len(_WHOLE) + _REAL.index(name)] += value

    def lane(self, rank: int) -> RankLane:
        """What a rank wrote last."""
        start = _SLOTS * (rank + 1)
        whole = dict(zip(_WHOLE, self._whole[start : start + len(_WHOLE)], strict=True))
        real = dict(
            zip(_REAL, self._real[start + len(_WHOLE) : start + len(_WHOLE) + len(_REAL)], strict=True)
        )
        whole.pop("stops_at")
        phase = PHASES[whole.pop("phase")]
        return RankLane(rank, phase=phase, **whole, **real)  # type: ignore[arg-type]

    @property
    def lanes(self) -> tuple[RankLane, ...]:
        """All ranks."""
        return tuple(self.lane(rank) for rank in range(self.ranks))

    def ask_to_stop(self) -> None:
        """All ranks end after the same step, which they agree on (`stops_after`)."""
        self._whole[_WANTED] = 1

    def stops_after(self, rank: int, step: int, catch_up: Callable[[], object] | None = None) -> bool:
        """Whether a rank that has just done this step, and has written so, stops here.

        A rank that sees the wish proposes the step after the furthest that any rank has reached, and goes on. No other rank can
        get past that step without it, for each step ends with an exchange of gradients: so all see the proposal at the latest
        when they have done it. On a GPU that holds once the rank has caught up with what it queued, which it does from the
        wish on: before that, its steps run ahead of their exchanges, and those it wrote are what a proposal goes beyond.
        """
        if not self._whole[_WANTED]:
            return False
        if catch_up is not None:
            catch_up()
        stops_at = min(filter(None, self._of_all("stops_at")), default=0)
        if stops_at:
            return step >= stops_at
        self.write(rank, stops_at=max(*self._of_all("step"), step) + 1)
        return False

    # --- what the ranks say to each other ---------------------------------------------------------------------------

    def words(self, rank: int, timeout_s: float) -> RankWords:
        """How this rank exchanges words with the others."""
        return PageWords(self, rank, timeout_s)

    def say(self, rank: int, number: int, said: bytes) -> None:
        """Write a rank's word of this number; the number last, which says that it is there."""
        place = self._place(rank, number)
        self._map[place + 8 : place + 8 + WORD_BYTES] = said
        self._whole[place // 8] = number

    def all_have_said(self, number: int) -> bool:
        """Whether the words of this number are there."""
        return all(self._whole[self._place(rank, number) // 8] == number for rank in range(self.ranks))

    def said(self, number: int) -> list[bytes]:
        """The words of all ranks."""
        places = (self._place(rank, number) + 8 for rank in range(self.ranks))
        return [self._map[place : place + WORD_BYTES] for place in places]

    def lost_a_rank(self) -> None:
        """The kernel knows that a rank has ended or failed: those that wait for its word give up."""
        self._whole[_LOST] = 1

    @property
    def has_lost_a_rank(self) -> bool:
        """Whether a rank has ended or failed."""
        return bool(self._whole[_LOST]) or _FAILED in self._of_all("phase")

    def _place(self, rank: int, number: int) -> int:
        return self._words_at + 8 * _WORD_SLOTS * (2 * rank + number % 2)

    def _of_all(self, name: str) -> list[int]:
        return [self._whole[_SLOTS * (each + 1) + _WHOLE.index(name)] for each in range(self.ranks)]

    def close(self) -> None:
        """Let go of the memory and its descriptors; what was in it last can still be read, as by a panel."""
        if self.descriptor < 0:
            return
        size = len(self._map)
        self._whole = (ctypes.c_int64 * (size // 8)).from_buffer_copy(self._map)
        self._real = (ctypes.c_double * (size // 8)).from_buffer_copy(self._map)
        with suppress(BufferError):  # a thread is reading at this moment: it goes with that
            self._map.close()
        os.close(self.descriptor)
        self.descriptor = -1
