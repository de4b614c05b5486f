"""What the ranks say to each other before each exchange: one short word a rank, and all of them wait for the words of all.

On one machine the words lie on the ranks' page: 10 µs of a step, where an all_gather over gloo takes 220 µs (two ranks, 2 CPUs).
"""

from __future__ import annotations

import struct
import time
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

_FORMAT = struct.Struct("=11q2d")
WORD_BYTES = _FORMAT.size
_TURNS_WITHOUT_SLEEP = 200
_LONGEST_SLEEP_S = 0.002


class Word(NamedTuple):
    """Where a rank is, and numbers that are alike on all ranks as long as they train one model."""

    kind: int  # of what it is about to do
    detail: int  # which optimizer steps
    loop: int  # over a loader that is shared out, counted since the cell began
    batch: int  # of this loop
    skipped: int  # the last batch of this loop without a backward pass
    ended_loop: int
    ended_batch: int  # the last one of that loop
    ended_early: int
    numbers: int  # of the optimizers' parameter groups
    versions: int  # how often parameters were changed
    parameters: int  # how many
    rate: float  # the learning rates, added up
    sample: float  # of the parameters

    @property
    def place(self) -> tuple[int, int, int, int]:
        """What a rank is about to do, and where."""
        return self[:4]

    @property
    def parameters_seen(self) -> tuple[int, float]:
        """What changes with the parameters."""
        return self.versions, self.sample


class RankWords(Protocol):
    """Words of all ranks, wherever they are."""

    def exchange(self, word: Word) -> list[Word]:
        """Say this one; gives those of all ranks, once all are there."""


class WordsOnPage(Protocol):
    """Where ranks of one machine write their words (`RankPage`)."""

    def say(self, rank: int, number: int, said: bytes) -> None:
        """Write a rank's word of this number."""

    def all_have_said(self, number: int) -> bool:
        """Whether the words of this number are there."""

    def said(self, number: int) -> list[bytes]:
        """The words of all ranks."""

    @property
    def has_lost_a_rank(self) -> bool:
        """Whether a rank has ended or failed."""


class PageWords:
    """Words on the page that ranks of one machine share.

    >>> words = PageWords(page, rank=0, timeout_s=60.0)
    >>> of_all = words.exchange(word)

    Each rank has two places, used in turns, because no rank can be two words ahead of another.
    """

    def __init__(self, page: WordsOnPage, rank: int, timeout_s: float) -> None:
        self._page, self._rank, self._timeout_s = page, rank, timeout_s
        self._number = 0

    def exchange(self, word: Word) -> list[Word]:
        """Raises what is known as an error of communication where another rank has failed, or does not come in time."""
        self._number += 1
        page, number = self._page, self._number
        page.say(self._rank, number, _FORMAT.pack(*word))
        turns, began = 0, time.monotonic()
        while not page.all_have_said(number):
            turns += 1
            waited_s = time.monotonic() - began
            if turns < _TURNS_WITHOUT_SLEEP:
                time.sleep(0)
                continue
            if page.has_lost_a_rank:
                raise RuntimeError("a rank of this process group has ended")
            if waited_s > self._timeout_s:
                raise RuntimeError(f"Timed out waiting for the other ranks, after {self._timeout_s:g} s")
            time.sleep(min(waited_s / 20, _LONGEST_SLEEP_S))
        return [Word(*_FORMAT.unpack(said)) for said in page.said(number)]


class GroupWords:
    """Words of ranks on several machines, by messages in a group of their own."""

    def __init__(self, timeout_s: float) -> None:
        self._group: Any = None
        self._timeout = timedelta(seconds=timeout_s)

    def exchange(self, word: Word) -> list[Word]:
        """All ranks come here for the first time together, too."""
        import torch
        import torch.distributed as dist

        if self._group is None:
            self._group = dist.new_group(backend="gloo", timeout=self._timeout)
        mine = torch.frombuffer(bytearray(_FORMAT.pack(*word)), dtype=torch.uint8)
        everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(everyone, mine, group=self._group)
        return [Word(*_FORMAT.unpack(each.numpy().tobytes())) for each in everyone]
