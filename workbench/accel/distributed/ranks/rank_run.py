"""One run on the ranks of a pool: send it, watch it, take the answers; a failure on one rank ends it on all."""

from __future__ import annotations

import itertools
import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import msgspec

from accel.distributed.ranks.failed_run import Trouble, error_of, of_death, of_failure, of_silence, received
from accel.distributed.ranks.rank_messages import RankReady, RunDone, RunFailed, RunRequest
from accel.distributed.ranks.rank_page import RankLane, RankPage
from accel.distributed.ranks.rank_process import RankProcess
from accel.distributed.ranks.warm_ranks import WarmRanks
from accel.private_disk import in_words
from accel.processes.kernel_folder import KernelFolder, own_kernel_folder
from accel.workload.shipping import Parcel

_meetings = itertools.count(1)
_MEETING_BYTES = 64 << 10  # more than ranks write there
_BETWEEN_LOOKS_S = 0.05
_GRACE_S = 0.4  # for the others to answer, once one rank failed: their errors are consequences
_LATER_S = 1.0  # than the timeout: ranks that waited in an exchange for so long say so first, and the others are those that hang
_TIDYING_S = 30.0  # more than that, for those that are about to
Watch = Callable[[tuple[RankLane, ...]], object]
Print = Callable[[int, str], object]


@dataclass
class RankAnswer:
    """What one rank sent at the end of a run."""

    done: RunDone
    blob: bytes
    memory: int | None  # a descriptor

    def let_go(self) -> None:
        """Close the memory of an answer that nobody reads."""
        if self.memory is not None:
            os.close(self.memory)
            self.memory = None


@dataclass
class RunOutcome:
    """A run that went well, or was stopped: answers and output by rank, and the last lanes."""

    answers: list[RankAnswer]
    lanes: tuple[RankLane, ...]
    outputs: list[str]
    seconds: float
    ready: list[RankReady | None]  # what each rank had: one that cannot be used again has been ended by now
    start_s: float  # until all ranks were up; 0 for warm ones, nearly
    was_stopped: bool = False


@dataclass
class RankRun:
    """A run; `go` waits for its end, `stop` may be called from any thread.

    >>> outcome = RankRun(pool, request, parcel).go()
    """

    pool: WarmRanks
    request: RunRequest
    parcel: Parcel
    asked: str
    watch: Watch | None = None
    on_print: Print | None = None
    _page: RankPage | None = None
    _is_to_stop: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def stop(self) -> None:
        """All ranks end after the same step; asked before they begin, after their first."""
        with self._lock:
            self._is_to_stop = True
            if self._page is not None:
                self._page.ask_to_stop()

    @property
    def lanes(self) -> tuple[RankLane, ...]:
        """What each rank is doing now."""
        with self._lock:
            return self._page.lanes if self._page is not None else ()

    def go(self) -> RunOutcome:
        """Run it; raises RankError with the rank that caused a failure. Whatever happens, no rank is left in the middle of it."""
        began = time.monotonic()
        with self.pool.taken(), meeting_place(is_private=self.pool.is_private) as place:
            ranks, page = self.pool.warm_up(self._look)
            start_s = time.monotonic() - began
            with self._lock:
                self._page = page
                if self._is_to_stop:
                    page.ask_to_stop()
            try:
                return self._run(ranks, page, place, began, start_s)
            finally:
                with self._lock:
                    self._page = None

    def _look(self) -> None:
        if self.watch is not None:
            self.watch(())

    def _run(
        self, ranks: list[RankProcess], page: RankPage, place: str, began: float, start_s: float
    ) -> RunOutcome:
        request = msgspec.structs.replace(self.request, rendezvous=place)
        answers: dict[int, RankAnswer] = {}
        trouble: list[Trouble] = []
        unclean: list[int] = []
        ready = [rank.ready for rank in ranks]
        is_over = False
        self.pool.is_settled = False
        try:
            for rank in ranks:
                rank.output.begin(self._printer(rank.rank))
                rank.send(request, self.parcel.blob, self.parcel.memory.descriptor)
            self._wait(ranks, page, answers, trouble, unclean)
            is_over = not trouble
        finally:
            if not is_over:
                for answer in answers.values():
                    answer.let_go()
            unfinished = [
                rank.rank for rank in ranks if rank.rank not in answers and rank.rank not in _clean(trouble)
            ]
            self.pool.end_ranks(sorted({*unfinished, *unclean}))
            self.pool.is_settled = True
            if self.watch is not None:
                with suppress(Exception):  # the run is over; a panel that is gone must not hide its end
                    self.watch(page.lanes)
        if trouble:
            raise error_of(trouble, self.asked, page.lanes, done=answers)
        for rank in ranks:
            rank.output.wait_for_end(10.0)  # what is on its way arrives at once, but on a busy machine
        ordered = [answers[rank.rank] for rank in ranks]
        return RunOutcome(
            ordered, page.lanes, [rank.output.of_run for rank in ranks], time.monotonic() - began, ready, start_s,
            was_stopped=any(answer.done.was_stopped for answer in ordered),
        )  # fmt: skip

    def _printer(self, rank: int) -> Callable[[str], object] | None:
        show = self.on_print
        return None if show is None else lambda text: show(rank, text)

    def _wait(
        self, ranks: list[RankProcess], page: RankPage, answers: dict[int, RankAnswer], trouble: list[Trouble],
        unclean: list[int],
    ) -> None:  # fmt: skip
        """Take answers as they come, until all are there, or until one failed and the others had time to say what they know."""
        waiting = {rank.channel.fileno(): rank for rank in ranks}
        poll = select.poll()
        for descriptor in waiting:
            poll.register(descriptor, select.POLLIN)
        signs, moved = _signs_of_life(ranks, page), time.monotonic()
        deadline = float("inf")
        while waiting and time.monotonic() < deadline + (
            _TIDYING_S if _is_about_to_answer(waiting.values(), page) else 0.0
        ):
            for descriptor, _ in poll.poll(_BETWEEN_LOOKS_S * 1000):
                rank = waiting.pop(descriptor)
                poll.unregister(descriptor)
                found = self._answer_of(rank, answers, unclean)
                if found is not None:
                    trouble.append(found)
                    deadline = min(deadline, time.monotonic() + _GRACE_S)
            if self.watch is not None:
                self.watch(page.lanes)
            now = _signs_of_life(ranks, page)
            if now != signs:
                signs, moved = now, time.monotonic()
            elif self.request.trains and time.monotonic() - moved > self.request.options.timeout_s + _LATER_S:
                trouble.append(of_silence(list(waiting.values()), page.lanes, self.request.options.timeout_s))
                return
        if waiting and trouble and all(each.is_consequence for each in trouble):
            trouble.append(of_silence(list(waiting.values()), page.lanes, self.request.options.timeout_s))

    def _answer_of(
        self, rank: RankProcess, answers: dict[int, RankAnswer], unclean: list[int]
    ) -> Trouble | None:
        came = received(rank)
        if isinstance(came, Trouble):
            return came
        message, blob, memory = came
        if isinstance(message, RunDone):
            answers[rank.rank] = RankAnswer(message, blob, memory)
            if not message.is_clean:
                unclean.append(rank.rank)
            return None
        if isinstance(message, RunFailed):
            if not message.is_clean:
                unclean.append(rank.rank)
            return of_failure(rank, message)
        return of_death(rank, f"it sent {type(message).__name__} instead of an answer")


def _is_about_to_answer(ranks: Iterable[RankProcess], page: RankPage) -> bool:
    """Whether a rank has raised or finished and only tidies up, as ending its loader's processes, before it says so."""
    return any(page.lane(rank.rank).phase in ("failed", "done") for rank in ranks)


def _signs_of_life(ranks: list[RankProcess], page: RankPage) -> list[tuple[int, int]]:
    """Grows with whatever a rank does in training, and with what it prints."""
    return [(page.lane(rank.rank).beats, rank.output.bytes_read) for rank in ranks]


@contextmanager
def meeting_place(*, is_private: bool = False) -> Iterator[str]:
    """A file in a folder of this user's alone, by which the ranks find each other.

    >>> with meeting_place() as path:
    ...     torch.distributed.FileStore(path, 2)

    A warm rank lets go of it when its garbage is next collected, which may be in a later run: torch then opens it once more. So
    each run has a name that none had before, in a folder that stays. Ranks with a private view of the disk, which see no folder
    that is shared with others, end with their run and have one of their own.
    """
    folder = KernelFolder("meet") if is_private else own_kernel_folder()
    path = os.path.join(folder.path, f"meet-{next(_meetings)}")
    try:
        with in_words("Ranks meet at a file in the folder for temporary files"):
            _check_room(path)
        yield path
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)
        if is_private:
            folder.close()


def _check_room(path: str) -> None:
    """OSError where what the ranks write there would find no room: torch tries again and again, for as long as it may."""
    with open(path, "wb") as file:
        file.write(bytes(_MEETING_BYTES))
    os.unlink(path)


def _clean(trouble: list[Trouble]) -> set[int]:
    """Ranks that failed and can be used again: they answered, and left nothing behind."""
    return {each.rank for each in trouble if each.has_answered}
