"""Ranks that are kept warm: started and imported once, each on CPUs of its own, and used for one run after another."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from accel.bounds import check_ranks
from accel.distributed.ranks.cpus_of_ranks import cpus_of_ranks
from accel.distributed.ranks.rank_environment import read_at_start
from accel.distributed.ranks.rank_page import RankPage
from accel.distributed.ranks.rank_process import ALONE, PRIVATE, RankFolder, RankProcess
from accel.errors import AccelError, WorkerError
from accel.machine.affinity import Allocation
from accel.private_disk import in_words
from accel.processes.channel import Closed

_TIDYING_S = 10.0  # for the child that took its step, on a busy machine


class WarmRanks:
    """So many ranks with so many threads each; they start when they are first needed, or with `warm_up`.

    `threads`: default, as many as can run at once on the CPUs that this process may use, shared out evenly. Raises AccelError
    where there are not enough CPUs. With `is_private` what they write to disk goes with them, and they end after one run.
    """

    def __init__(
        self, ranks: int, *, threads: int | None = None, environments: list[dict[str, str]] | None = None,
        is_private: bool = False,
    ) -> None:  # fmt: skip
        check_ranks(f"{ranks} ranks", ranks)
        self.ranks = ranks
        with in_words(f"{ranks} ranks"):
            self.allocation: Allocation | None = cpus_of_ranks(ranks, threads)
        self._environments = environments or [{} for _ in range(ranks)]
        self.is_private = is_private
        self._processes: list[RankProcess | None] = [None] * ranks
        self._page: RankPage | None = None
        self._alone: tuple[RankProcess, RankPage] | None = None
        self._lock, self._in_use = threading.RLock(), threading.Lock()
        self.is_settled = True  # no rank is in the middle of anything
        self._started_with: dict[str, str] = {}
        self.started_s = 0.0  # what it took to bring up those that were not there yet, last time

    @property
    def pids(self) -> dict[int, int]:
        """The process of each rank that is up: {rank: pid}."""
        return {each.rank: each.pid for each in self._processes if each is not None and each.is_alive}

    @property
    def processes(self) -> list[RankProcess]:
        """The ranks that are up."""
        return [each for each in self._processes if each is not None]

    @property
    def is_warm(self) -> bool:
        """Whether all ranks are up."""
        return len(self.pids) == self.ranks

    def warm_up(
        self, look: Callable[[], object] | None = None, *, checks: bool = False
    ) -> tuple[list[RankProcess], RankPage]:
        """Bring up the ranks that are not there; all of them, where variables have changed that libraries read as they start.

        `look` is called now and then while they start. With `checks`, the process that takes first steps alone comes up too.
        """
        with self._lock:
            began = time.monotonic()
            started_with = read_at_start()
            if not self.is_settled or self._started_with != started_with:
                self.end_ranks()
            self._started_with = started_with
            if not self.pids:
                RankFolder.remove_abandoned()
            if self._page is not None:
                self._page.close()
            self._page = RankPage(self.ranks)
            self.is_settled = False
            try:
                if checks and (self._alone is None or not self._alone[0].is_alive):
                    self._end_alone()
                    process = RankProcess(self.ranks, (), self._environments[0], words=(ALONE,))
                    self._alone = process, RankPage(1)
                self._bring_up(self._page, look)
                if checks and self._alone is not None:
                    try:
                        self._alone[0].meet(self._alone[1], look)
                    except WorkerError:  # the run does without its check
                        self._end_alone()
            except BaseException:  # Ctrl-C among them: what a rank has heard and said is unknown then
                self.end_ranks()
                raise
            self.is_settled = True
            self.started_s = time.monotonic() - began
            return self.processes, self._page

    @property
    def alone(self) -> RankProcess | None:
        """The process that takes first steps alone, where it is up."""
        return self._alone[0] if self._alone is not None else None

    def step_was_taken(self) -> None:
        """The run is over, and so is the child that took its first step alone; the process that forked it is kept."""
        if self._alone is not None:
            try:
                os.kill(self._alone[0].pid, signal.SIGTERM)
                self._alone[0].channel.receive(_TIDYING_S)
            except (ProcessLookupError, TimeoutError, Closed):
                self._end_alone()

    def _end_alone(self) -> None:
        alone, self._alone = self._alone, None
        if alone is not None:
            alone[0].close()
            alone[1].close()

    def _bring_up(self, page: RankPage, look: Callable[[], object] | None) -> None:
        for rank in range(self.ranks):
            process = self._processes[rank]
            if process is None or not process.is_alive:
                self._start(rank)
        renewed = [self._start(each.rank) for each in self.processes if not self._is_fit(each, page, look)]
        for each in renewed:
            each.meet(page, look)

    def _is_fit(self, process: RankProcess, page: RankPage, look: Callable[[], object] | None) -> bool:
        """Have it meet the others; False where an earlier run holds it, or has left it other than a fresh one."""
        was_up = process.ready is not None
        try:
            process.meet(page, look)
        except WorkerError:
            if not was_up:
                raise
            return False
        return process.ready is None or not process.ready.stale

    def _start(self, rank: int) -> RankProcess:
        """A new process for a rank, in the place of the one it had."""
        before = self._processes[rank]
        if before is not None:
            before.close()
        cpus = self.allocation.ranks[rank].cpus if self.allocation else ()
        started = self._processes[rank] = RankProcess(
            rank, cpus, self._environments[rank], words=(PRIVATE,) if self.is_private else ()
        )
        return started

    @contextmanager
    def taken(self) -> Iterator[None]:
        """For one run at a time; raises AccelError while there is another."""
        if not self._in_use.acquire(blocking=False):
            raise AccelError(
                f"A run on these {self.ranks} ranks", because="they are busy with another one",
                do="Wait for its end or stop it first; or use another RankPool.",
            )  # fmt: skip
        try:
            yield
        finally:
            self._in_use.release()

    def end_ranks(self, which: list[int] | None = None) -> None:
        """End these ranks (default: all); the next run starts them anew."""
        with self._lock:
            for rank in range(self.ranks) if which is None else which:
                process = self._processes[rank]
                if process is not None:
                    process.close()
                    self._processes[rank] = None
            if which is None:
                self._end_alone()
                self.is_settled = True

    def close(self) -> None:
        """End all ranks."""
        self.end_ranks()
        with self._lock:
            if self._page is not None:
                self._page.close()
                self._page = None
