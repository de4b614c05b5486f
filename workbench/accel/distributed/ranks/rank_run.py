"""One run on the ranks of a pool: send it, watch it, take the answers; a failure on one rank ends it on all."""

from __future__ import annotations

import glob
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import msgspec

from accel.distributed.first_step.recorded_step import save
from accel.distributed.ranks.failed_run import error_of
from accel.distributed.ranks.rank_answers import RankAnswers
from accel.distributed.ranks.rank_messages import RunRequest
from accel.distributed.ranks.rank_page import RankLane, RankPage
from accel.distributed.ranks.rank_process import RankProcess
from accel.distributed.ranks.run_outcome import Print, RunOutcome, Watch
from accel.distributed.ranks.warm_ranks import WarmRanks
from accel.private_disk import in_words
from accel.processes.kernel_folder import KernelFolder, own_kernel_folder
from accel.workload.shipping import Parcel
from accel.workload.uninterrupted import lost_interrupts

_meetings = itertools.count(1)
_MEETING_BYTES = 64 << 10  # more than ranks write there


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
    waits_for: str = ""
    _page: RankPage | None = None
    _is_to_stop: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _raise_lost: Callable[[], None] = lambda: None

    job = ""  # warm ranks are no job

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
        with (
            self.pool.taken(),
            meeting_place(is_private=self.pool.is_private) as place,
            lost_interrupts() as self._raise_lost,
        ):
            ranks, page = self.pool.warm_up(self._look, checks=self._checks)
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

    def _look(self, page: RankPage | None = None) -> None:
        """In each turn of a wait."""
        self._raise_lost()
        self._show(page)

    def _show(self, page: RankPage | None) -> None:
        if self.watch is not None:
            self.watch(page.lanes if page is not None else ())

    def _run(
        self, ranks: list[RankProcess], page: RankPage, place: str, began: float, start_s: float
    ) -> RunOutcome:
        alone = self.pool.alone if self._checks else None
        reference = f"{place}-step" if self._checks else ""
        if reference and alone is None:
            save("the process that takes that step alone did not start", reference)
        request = msgspec.structs.replace(self.request, rendezvous=place, reference=reference)
        options = self.request.options
        answers = RankAnswers(ranks, page, timeout_s=options.timeout_s, trains=self.request.trains)
        ready = [rank.ready for rank in ranks]
        is_over = False
        self.pool.is_settled = False
        try:
            for rank in ranks:
                rank.output.begin(self._printer(rank.rank))
                rank.send(request, self.parcel.blob, self.parcel.memory.descriptor)
            if alone is not None:
                alone.send(self._of_one_process(request), self.parcel.blob, self.parcel.memory.descriptor)
            answers.wait(lambda: self._look(page))
            is_over = not answers.trouble
        finally:
            if not is_over:
                answers.let_go()
            self.pool.end_ranks(answers.to_end())
            if alone is not None:
                self.pool.step_was_taken()
            self.pool.is_settled = True
            with suppress(Exception):  # the run is over; a panel that is gone must not hide its end
                self._show(page)
        if answers.trouble:
            raise error_of(answers.trouble, self.asked, page.lanes, done=answers.by_rank)
        for rank in ranks:
            rank.output.wait_for_end(10.0)  # what is on its way arrives at once, but on a busy machine
        ordered = [answers.by_rank[rank.rank] for rank in ranks]
        return RunOutcome(
            ordered, page.lanes, [rank.output.of_run for rank in ranks], time.monotonic() - began, ready, start_s,
            was_stopped=any(answer.done.was_stopped for answer in ordered),
        )  # fmt: skip

    @property
    def _checks(self) -> bool:
        """Whether one process takes the first step too. On GPUs it would take memory from a rank, and seconds to start."""
        options = self.request.options
        is_asked = self.request.trains and options.batch == "global" and options.check != "off"
        return (
            is_asked and self.pool.ranks > 1 and (self.request.backend != "nccl" or options.check == "strict")
        )

    def _of_one_process(self, request: RunRequest) -> RunRequest:
        """The same cell without ranks: it ends with its first step, and nothing of it stays."""
        options = msgspec.structs.replace(
            request.options,
            discard=True,
            checkpoint="",
            sync_batchnorm=False,
            communication=False,
            compress="none",
        )
        return msgspec.structs.replace(
            request, rendezvous=f"{request.rendezvous}-alone", options=options, backend="gloo",
            stands_for=self.pool.ranks, question=None,
        )  # fmt: skip

    def _printer(self, rank: int) -> Callable[[str], object] | None:
        show = self.on_print
        return None if show is None else lambda text: show(rank, text)


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
        for each in glob.glob(f"{glob.escape(path)}*"):
            with suppress(FileNotFoundError):
                os.unlink(each)
        if is_private:
            folder.close()


def _check_room(path: str) -> None:
    """OSError where what the ranks write there would find no room: torch tries again and again, for as long as it may."""
    with open(path, "wb") as file:
        file.write(bytes(_MEETING_BYTES))
    os.unlink(path)
