"""Which rank caused a failure: what others report while they wait for it is a consequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accel.distributed.rank_messages import RunFailed
from accel.distributed.rank_page import RankLane
from accel.distributed.rank_process import RankProcess
from accel.errors import AccelError, NotShippable, RankError
from accel.workers.messages import Failed

_WAITING_FOR_OTHERS = (
    "all_reduce",
    "distributed_c10d",
    "broadcast",
    "barrier",
    "torch/autograd/graph.py",
    "_sync_",
)
_SAFE = "The notebook's own objects are as they were."


@dataclass(frozen=True)
class Trouble:
    """What is known of one rank that did not end well. A consequence has its cause on another rank."""

    rank: int
    because: str
    do: str
    traceback_text: str = ""
    is_consequence: bool = False
    has_answered: bool = False
    failed: Failed | None = None
    others: str = ""  # where the other ranks stood


def of_failure(rank: RankProcess, message: RunFailed) -> Trouble:
    """A rank whose code raised."""
    failed = message.failed
    what = f"it raised {failed.kind}: {failed.message}"
    do = f"The traceback above shows the line. {_SAFE}"
    if "can't allocate memory" in failed.message or failed.kind in ("MemoryError", "OutOfMemoryError"):
        do = f"It ran out of memory: each rank holds a copy of the model; use fewer ranks or a smaller batch. {_SAFE}"
    return Trouble(
        rank.rank, what, do, failed.traceback, is_consequence=message.is_communication, has_answered=True, failed=failed,
    )  # fmt: skip


def of_death(rank: RankProcess, because: str = "") -> Trouble:
    """A rank that is gone."""
    how = because or rank.how_it_ended()
    do = f"Its last lines are above, where it printed any. {_SAFE}"
    return Trouble(rank.rank, how, do, rank.output.text[-4000:])


def of_silence(ranks: Sequence[RankProcess], lanes: Sequence[RankLane], timeout_s: float) -> Trouble:
    """Ranks that go on without an answer, while others wait or have given up: the stuck one, with where each stands."""
    stands = {rank.rank: rank.where_it_stands() for rank in ranks if rank.is_alive}
    if not stands:
        return of_death(ranks[0])
    own = [rank for rank, text in stands.items() if not any(word in text for word in _WAITING_FOR_OTHERS)]
    stuck = min(own or stands, key=lambda rank: lanes[rank].step)
    others = "\n".join(f"rank {rank} stands here:\n{text}" for rank, text in stands.items() if rank != stuck)
    return Trouble(
        stuck, f"it did not come on for {timeout_s:.0f} s, in its step {lanes[stuck].step + 1}",
        f"It stands in the line above; if that only takes long, use a longer --timeout. {_SAFE}",
        f"rank {stuck} stands here:\n{stands[stuck]}", others=others,
    )  # fmt: skip


def error_of(trouble: Sequence[Trouble], asked: str, lanes: Sequence[RankLane]) -> AccelError:
    """One error for all: that of the first rank whose trouble is its own."""
    cause = next((each for each in trouble if not each.is_consequence), trouble[0])
    if cause.failed is not None and cause.failed.asked:
        return AccelError(cause.failed.asked, because=cause.failed.because, do=cause.failed.do)
    if cause.failed is not None and cause.failed.kind == "NotShippable":
        return NotShippable(asked, because=cause.failed.message, do="Run the cell again.")
    text = "\n".join(filter(None, (cause.others, cause.traceback_text)))
    ranks = f"rank {cause.rank} of {len(lanes)}" if len(lanes) > 1 else "its rank"
    return RankError(
        cause.rank, f"{asked} on {ranks}", because=cause.because, do=cause.do, traceback_text=text,
        has_raised=cause.failed is not None and not cause.is_consequence,
    )  # fmt: skip
