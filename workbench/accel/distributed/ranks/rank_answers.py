"""The answers of the ranks to one run, as they come; a failure on one rank, or silence on all, ends the wait."""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accel.distributed.ranks.failed_run import Trouble, of_death, of_failure, of_silence, received
from accel.distributed.ranks.rank_messages import RunDone, RunFailed
from accel.distributed.ranks.rank_page import RankPage
from accel.distributed.ranks.rank_process import RankProcess

_BETWEEN_LOOKS_S = 0.05
_GRACE_S = 0.4  # for the others to answer, once one rank failed: their errors are consequences
_LATER_S = 1.0  # than the timeout: ranks that waited in an exchange for so long say so first, and the others are those that hang
_TIDYING_S = 30.0  # more than that, for those that are about to


@dataclass
class RankAnswer:
    """What one rank sent at the end of a run."""

    done: RunDone
    blob: bytes
    memory: int | None  # a descriptor

    def let_go(self) -> None:
        """Close the memory of an answer that is not read."""
        if self.memory is not None:
            os.close(self.memory)
            self.memory = None


class RankAnswers:
    """What each rank answered, what went wrong, and which ranks to end.

    >>> answers = RankAnswers(ranks, page, timeout_s=60.0, trains=True)
    >>> answers.wait(look)
    >>> answers.by_rank, answers.trouble

    Ranks that train may not be silent for longer than `timeout_s`; a function that does not train may.
    """

    def __init__(
        self, ranks: Sequence[RankProcess], page: RankPage, *, timeout_s: float, trains: bool
    ) -> None:
        self._ranks, self._page = ranks, page
        self._timeout_s, self._trains = timeout_s, trains
        self.by_rank: dict[int, RankAnswer] = {}
        self.trouble: list[Trouble] = []
        self._unclean: set[int] = set()  # they answered, and cannot be used again
        self._waiting: dict[int, RankProcess] = {}
        self._poll = select.poll()
        self._give_up_at = math.inf
        self._signs: list[tuple[int, int]] = []
        self._last_sign_at = 0.0

    def wait(self, look: Callable[[], object]) -> None:
        """Until all answers are there, or until one rank failed and the others had time to say what they know.

        `look` is called again and again.
        """
        self._begin()
        while self._waiting and not self._is_time_up:
            self._take_what_came()
            look()
            if self._waiting and self._all_are_silent():
                self._note_silence()
                return
        if self._waiting and self.trouble and all(each.is_consequence for each in self.trouble):
            self._note_silence()  # the cause is on a rank that did not answer

    def to_end(self) -> list[int]:
        """Ranks that cannot be used again: they did not answer, or left something behind."""
        clean = self.by_rank.keys() | {each.rank for each in self.trouble if each.has_answered}
        return sorted({rank.rank for rank in self._ranks if rank.rank not in clean} | self._unclean)

    def let_go(self) -> None:
        """Close the memory of all answers."""
        for answer in self.by_rank.values():
            answer.let_go()

    def _begin(self) -> None:
        for rank in self._ranks:
            descriptor = rank.channel.fileno()
            self._waiting[descriptor] = rank
            self._poll.register(descriptor, select.POLLIN)
        self._signs, self._last_sign_at = self._signs_of_life(), time.monotonic()

    @property
    def _is_time_up(self) -> bool:
        """Whether the others had their time after a failure; more where one is about to answer."""
        more_s = _TIDYING_S if self._one_is_about_to_answer() else 0.0
        return time.monotonic() >= self._give_up_at + more_s

    def _one_is_about_to_answer(self) -> bool:
        """Whether a rank has raised or finished and only tidies up, as ending its loader's processes, before it says so."""
        return any(self._page.lane(rank.rank).phase in ("failed", "done") for rank in self._waiting.values())

    def _take_what_came(self) -> None:
        for descriptor, _ in self._poll.poll(_BETWEEN_LOOKS_S * 1000):
            rank = self._waiting.pop(descriptor)
            self._poll.unregister(descriptor)
            found = self._answer_of(rank)
            if found is not None:
                self.trouble.append(found)
                self._page.lost_a_rank()
                self._give_up_at = min(self._give_up_at, time.monotonic() + _GRACE_S)

    def _answer_of(self, rank: RankProcess) -> Trouble | None:
        """Keep a rank's answer; what went wrong where it has none."""
        came = received(rank)
        if isinstance(came, Trouble):
            return came
        message, blob, memory = came
        if isinstance(message, RunDone | RunFailed) and not message.is_clean:
            self._unclean.add(rank.rank)
        if isinstance(message, RunDone):
            self.by_rank[rank.rank] = RankAnswer(message, blob, memory)
            return None
        if isinstance(message, RunFailed):
            return of_failure(rank.rank, message)
        return of_death(rank, f"it sent {type(message).__name__} instead of an answer")

    def _all_are_silent(self) -> bool:
        """Whether no rank has come on for longer than the timeout."""
        signs, now = self._signs_of_life(), time.monotonic()
        if signs != self._signs:
            self._signs, self._last_sign_at = signs, now
        return self._trains and now - self._last_sign_at > self._timeout_s + _LATER_S

    def _signs_of_life(self) -> list[tuple[int, int]]:
        """Grows with whatever a rank does in training, and with what it prints."""
        return [(self._page.lane(rank.rank).beats, rank.output.bytes_read) for rank in self._ranks]

    def _note_silence(self) -> None:
        self.trouble.append(of_silence(list(self._waiting.values()), self._page.lanes, self._timeout_s))
