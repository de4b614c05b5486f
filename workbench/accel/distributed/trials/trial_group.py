"""A variant of a trial that trains on several ranks: processes that together behave as one worker."""

from __future__ import annotations

import select
import signal
import threading
import time
from contextlib import ExitStack
from typing import Any, TypeVar

import msgspec

from accel.accelerations.ddp import Ddp
from accel.distributed.ranks.cpus_of_ranks import cpus_of_ranks
from accel.distributed.ranks.failed_run import Trouble, error_of, of_death, of_failure, of_silence, received
from accel.distributed.ranks.rank_devices import RankDevices, rank_devices
from accel.distributed.ranks.rank_messages import RankReady, RunFailed
from accel.distributed.ranks.rank_page import RankPage
from accel.distributed.ranks.rank_process import RankFolder, RankProcess
from accel.distributed.ranks.rank_run import meeting_place
from accel.distributed.trials.trial_answers import joined
from accel.errors import AccelError
from accel.processes.child import AS_THE_KERNEL
from accel.processes.failure import Failed
from accel.processes.start import Start
from accel.workers.messages import FromWorker, Load
from accel.workers.variant_worker import Variant

MODULE = "accel.distributed.trials.trial_rank"
_INCOMING = FromWorker | RankReady | RunFailed
_GRACE_S = 0.4  # for the others to answer, once one rank failed: their errors are consequences
_Message = TypeVar("_Message")


def group_for(variant: Variant, load: Load) -> TrialGroup | None:
    """The ranks for a plan that trains on several; None for any other.

    >>> group_for(Variant(Plan.parse("channels_last"), "steady"), load)
    """
    entry = variant.plan.group
    return None if entry is None else TrialGroup(entry, variant.label, load.trains_on, variant.start)


class TrialGroup:
    """Fresh ranks, each pinned to CPUs of its own or with a GPU of its own, that are stepped together.

    >>> group = TrialGroup(Ddp(n=2), "ddp"); group.wait_until_ready()
    >>> group.send(load, blob, descriptor); group.receive(Loaded, timeout_s=60)
    >>> group.close()

    What is sent goes to all ranks; an answer is there when all have answered. What one of them did wrong is raised as a
    RankError that names it, and ends all.
    """

    def __init__(self, entry: Ddp, label: str, trains_on: str = "cpu", start: Start = AS_THE_KERNEL) -> None:
        self.label, self._start = repr(label), start
        self._lock, self._is_ended = threading.Lock(), False
        devices, allocation = _devices(entry, trains_on), cpus_of_ranks(entry.n, entry.threads)
        places = allocation.ranks if allocation else ()
        self.notes = allocation.notes if allocation else ()
        RankFolder.remove_abandoned()
        self._page, self._undo = RankPage(entry.n), ExitStack()
        place = self._undo.enter_context(meeting_place(is_private=True))
        self.ranks: list[RankProcess] = []
        try:
            for rank in range(entry.n):
                environment = dict(devices.environments[rank])
                if not places and entry.threads:
                    environment["OMP_NUM_THREADS"] = str(entry.threads)
                cpus = places[rank].cpus if places else ()
                words = (devices.backend, place, entry.batch)
                self.ranks.append(
                    RankProcess(
                        rank, cpus, environment, module=MODULE, words=words, incoming=_INCOMING, start=start
                    )
                )
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The process of rank 0."""
        return self.ranks[0].pid

    @property
    def pids(self) -> dict[int, int]:
        """The process of each rank: {rank: pid}."""
        return {rank.rank: rank.pid for rank in self.ranks}

    @property
    def is_alive(self) -> bool:
        """Whether all ranks run."""
        return all(rank.is_alive for rank in self.ranks)

    @property
    def cpus(self) -> list[tuple[int, ...]]:
        """The CPUs of each rank, as it read them back."""
        return [tuple(rank.ready.cpus) if rank.ready is not None else () for rank in self.ranks]

    def wait_until_ready(self) -> None:
        """Wait for the imports of all ranks; each is given the page that all share."""
        for rank in self.ranks:
            rank.meet(self._page)

    def send(self, message: msgspec.Struct, blob: bytes = b"", descriptor: int | None = None) -> None:
        """Send it to every rank; that one is gone is found when its answer is awaited."""
        for rank in self.ranks:
            if self._start:
                rank.signal(signal.SIGCONT)
            rank.send(message, blob, descriptor)

    def receive(self, kind: type[_Message], *, timeout_s: float) -> _Message:
        """The next answer of all ranks, as one; raises the error of the rank that caused a failure, and then all are ended."""
        answers: dict[int, Any] = {}
        trouble = self._wait(kind, answers, timeout_s)
        if trouble:
            self.close()
            raise error_of(trouble, f"A trial of {self.label}", self._page.lanes, done=answers)
        for rank in (
            self.ranks if self._start else ()
        ):  # as a worker does: threads may have been started to spin
            rank.signal(signal.SIGSTOP)
        answer: _Message = joined([answers[rank.rank] for rank in self.ranks], self.cpus, self.notes)
        return answer

    def _wait(self, kind: type[Any], answers: dict[int, Any], timeout_s: float) -> list[Trouble]:
        trouble: list[Trouble] = []
        waiting, poll = {rank.channel.fileno(): rank for rank in self.ranks}, select.poll()
        if min(waiting) < 0:
            raise AccelError(f"A trial of {self.label}", because="its ranks were ended", do="Try again.")
        for descriptor in waiting:
            poll.register(descriptor, select.POLLIN)
        deadline = time.monotonic() + timeout_s
        while waiting and (left_s := deadline - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(left_s * 1000):
                poll.unregister(descriptor)
                found = _answer_of(waiting.pop(descriptor), kind, answers)
                if found is not None:
                    trouble.append(found)
                    deadline = min(deadline, time.monotonic() + _GRACE_S)
        if waiting and all(each.is_consequence for each in trouble):
            trouble.append(of_silence(list(waiting.values()), self._page.lanes, timeout_s))
        return trouble

    def close(self) -> None:
        """End all ranks and everything they started; may be called from any thread, and twice."""
        with self._lock:
            if self._is_ended:
                return
            self._is_ended = True
            for rank in self.ranks:
                rank.close()
            self._page.close()
            self._undo.close()

    kill = close


def _answer_of(rank: RankProcess, kind: type[Any], answers: dict[int, Any]) -> Trouble | None:
    came = received(rank)
    if isinstance(came, Trouble):
        return came
    message, _, _ = came
    if isinstance(message, RunFailed):
        return of_failure(rank.rank, message)
    if isinstance(message, Failed):  # of the user's metric
        return of_failure(rank.rank, RunFailed(message, is_communication=False, is_clean=False))
    if not isinstance(message, kind):
        return of_death(rank, f"it sent {type(message).__name__} instead of {kind.__name__}")
    answers[rank.rank] = message
    return None


def _devices(entry: Ddp, trains_on: str) -> RankDevices:
    """A GPU for each rank where the workload trains on one; what trains on the CPU does so whatever GPUs there are."""
    return rank_devices(entry.n, backend="nccl" if trains_on.startswith("cuda") else "gloo")
