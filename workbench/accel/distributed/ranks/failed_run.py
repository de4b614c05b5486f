"""Which rank caused a failure: what others report while they wait for it is a consequence."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from accel.distributed.ranks.rank_messages import RunFailed
from accel.distributed.ranks.rank_page import RankLane
from accel.distributed.ranks.rank_process import RankProcess
from accel.errors import AccelError, NotShippable, RankError
from accel.processes.channel import Closed
from accel.processes.child import PAST_THE_CELL
from accel.processes.failure import Failed

_WAITING_FOR_OTHERS = (
    "torch/distributed/", "torch/nn/parallel/distributed.py", "torch/autograd/graph.py",
    "torch/nn/modules/_functions.py", "accel/distributed/ranks/rank_words.py",
)  # fmt: skip  # files in which a rank stands that waits for the others
_SAFE = "The notebook's own objects are as they were."


_OF_PIECES = {  # torch's words, and what they mean in a cell whose model is spread over ranks
    "mixed torch.Tensor and DTensor": (
        "Parameters that are spread over ranks (fully_shard) met a whole tensor outside the model's call. For a penalty on "
        "weights use weight_decay of the optimizer; average weights (AveragedModel) in plain data-parallel training; or leave "
        "fully_shard out."
    ),
    "FSDP does not support deepcopy": (
        "A copy of a model that is spread over ranks (fully_shard) would be one of this rank's parts. Keep "
        "copy.deepcopy(model.state_dict()), on every rank: it comes home whole."
    ),
    "storage of size 0": (
        "fully_shard lets a block's parameters go after its backward pass, so that gradients cannot be differentiated again "
        "(create_graph=True). Leave fully_shard out, or train without that term."
    ),
}
_SAME_BLOCKS = (
    "With fully_shard, every rank has to compute the same blocks in the same order: a block that is skipped by chance "
    "(LayerDrop) on one rank is waited for by the others. Draw the chance alike on all ranks, or leave fully_shard out."
)


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


def received(rank: RankProcess) -> tuple[Any, bytes, int | None] | Trouble:
    """A rank's next message and what follows it, or what is known of a rank that has none to send."""
    try:
        return rank.channel.receive()
    except Closed:
        return of_death(rank)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        return of_death(rank, f"it sent what is no message ({error})")


def of_failure(rank: int, message: RunFailed) -> Trouble:
    """A rank whose code raised."""
    failed = message.failed
    what = failed.what
    do = (
        f"{failed.memory_advice('each rank', 'fewer ranks') or 'The traceback above shows the line.'} {_SAFE}"
    )
    for words, why in _OF_PIECES.items():
        if words in failed.message:
            do = f"{why} {do}"
    if failed.kind == "SystemExit":
        what = f"it called exit({failed.said})"
        do = f"A cell ends by itself: leave exit() out, or use break or return. {_SAFE}"
    return Trouble(
        rank, what, do, failed.traceback, is_consequence=message.is_communication, has_answered=True, failed=failed,
    )  # fmt: skip


def of_death(rank: RankProcess, because: str = "") -> Trouble:
    """A rank that is gone."""
    how = because or rank.how_it_ended()
    last = rank.output.of_run[-4000:]
    same_blocks = f"{_SAME_BLOCKS} " if _is_of_pieces(last) else ""
    do = f"{'Its last lines are above. ' if last.strip() else ''}{same_blocks}{_SAFE} The next run starts this rank anew."
    return Trouble(rank.rank, how, do, last)


def of_silence(ranks: Sequence[RankProcess], lanes: Sequence[RankLane], timeout_s: float) -> Trouble:
    """Ranks that go on without an answer, while others wait or have given up: the stuck one, with where each stands."""
    asked = [(rank, rank.ask_where_it_stands()) for rank in ranks if rank.is_alive]
    if not asked:
        return of_death(ranks[0])
    stands = {rank.rank: rank.where_it_stands(asked_at) for rank, asked_at in asked}
    own = [rank for rank, text in stands.items() if not _waits_for_others(text)]
    stuck = min(own or stands, key=lambda rank: lanes[rank].step)
    others = "\n".join(f"rank {rank} stands here:\n{text}" for rank, text in stands.items() if rank != stuck)
    where = "in the cell's first step" if not lanes[stuck].step else f"in step {lanes[stuck].step + 1}"
    same_blocks = f" {_SAME_BLOCKS}" if any(map(_is_of_pieces, stands.values())) else ""
    return Trouble(
        stuck, f"it did not come on for {timeout_s:g} s, {where}",
        f"Where it stands is above, its innermost line first; if that only takes long, "
        f"use a longer timeout.{same_blocks} {_SAFE}",
        f"rank {stuck} stands here:\n{stands[stuck]}", others=others,
    )  # fmt: skip


def _waits_for_others(stands: str) -> bool:
    """Whether the innermost line is one in which torch waits for other ranks, or did until now."""
    return stands == PAST_THE_CELL or any(file in stands.split("\n", 1)[0] for file in _WAITING_FOR_OTHERS)


def of_waiting_in_vain(trouble: Sequence[Trouble], done: Collection[int]) -> Trouble:
    """All that failed did so while they waited for others, and no rank hung: a collective that not all ranks called."""
    by_cell = [each for each in trouble if _is_called_by_cell(each.traceback_text)]
    cause = (by_cell or list(trouble))[0]
    others = [each for each in trouble if each is not cause]
    if done:
        finished = " and ".join(f"rank {rank}" for rank in sorted(done))
        because = f"it waited for {finished}, which had come to the end of the cell"
    elif others:
        ranks = " and ".join(f"rank {each.rank}" for each in others)
        because = f"it waited for {ranks}, which waited elsewhere"
    else:
        return cause  # of a single rank: as it says
    do = (
        _SAME_BLOCKS if _waits_for_pieces(trouble)
        else "Every rank has to call the same collectives in the same order."
    )  # fmt: skip
    where = "\n".join(f"rank {each.rank} waited here:\n{each.traceback_text.rstrip()}" for each in others)
    return replace(
        cause, because=because, others=where, is_consequence=False,
        do=f"{do} {_SAFE}",
    )  # fmt: skip


def _is_of_pieces(text: str) -> bool:
    return "/fsdp/" in text or "/sharded_model.py" in text


def _waits_for_pieces(trouble: Sequence[Trouble]) -> bool:
    """Whether a rank waited for others to put parameters together."""
    return any(_is_of_pieces(each.traceback_text) for each in trouble)


def _is_called_by_cell(traceback_text: str) -> bool:
    """Whether a collective was called by the user's lines, and not by a model's backward pass or an optimizer's step."""
    files = re.findall(r'^  File "([^"]+)"', traceback_text, re.MULTILINE)
    first = next((n for n, file in enumerate(files) if any(part in file for part in _WAITING_FOR_OTHERS)), 0)
    return bool(first) and not any("/accel/" in file or "/torch/" in file for file in files[:first])


def error_of(
    trouble: Sequence[Trouble], asked: str, lanes: Sequence[RankLane], done: Collection[int] = ()
) -> AccelError:
    """One error for all: that of the first rank whose trouble is its own."""
    own = [each for each in trouble if not each.is_consequence]
    cause = own[0] if own else of_waiting_in_vain(trouble, done)
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
