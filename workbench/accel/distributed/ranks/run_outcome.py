"""A run on ranks, wherever they are: how it is begun, watched and stopped, and what it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from accel.distributed.ranks.rank_answers import RankAnswer
from accel.distributed.ranks.rank_messages import RankReady, RunRequest
from accel.distributed.ranks.rank_page import RankLane
from accel.workload.shipping import Parcel

THIS_MACHINE = "this machine"
Watch = Callable[[tuple[RankLane, ...]], object]
Print = Callable[[int, str], object]


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
    on_home: Callable[[], object] = lambda: None  # what is called once its state is in the notebook's objects


class RunOnRanks(Protocol):
    """One run; `go` waits for its end, `stop` may be called from any thread."""

    @property
    def lanes(self) -> tuple[RankLane, ...]:
        """What each rank is doing now; none before they are up."""

    @property
    def job(self) -> str:
        """The name of its job; empty where it is none."""

    @property
    def waits_for(self) -> str:
        """What it waits for before the ranks are up, where that is known: a place in a queue."""

    def stop(self) -> None:
        """All ranks end after the same step."""

    def go(self) -> RunOutcome:
        """Run it; raises RankError with the rank that caused a failure."""


class Ranks(Protocol):
    """Where a cell can be run: warm processes of this machine, or a job of a launcher.

    >>> run = ranks.begin(request, parcel, asked="%%accel ddp")
    >>> outcome = run.go()
    """

    @property
    def ranks(self) -> int:
        """How many."""

    @property
    def where(self) -> str:
        """In words."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of them in a result."""

    @property
    def restart_themselves(self) -> bool:
        """Whether a rank that died is started again by who launched it."""

    def begin(
        self, request: RunRequest, parcel: Parcel, *, asked: str, watch: Watch | None = None,
        on_print: Print | None = None,
    ) -> RunOnRanks:  # fmt: skip
        """A run of this request."""
