"""How ranks have parted, in the user's terms: which one skipped a batch, left the loop, or has another learning rate."""

from __future__ import annotations

import math
from collections.abc import Sequence

from accel.distributed.data_parallel.whereabouts import Loop
from accel.distributed.ranks.rank_words import Word

KINDS = ("backward", "step", "collective", "call", "buffers", "check", "end")
_IN_WORDS = {
    "backward": "a backward pass", "step": "an optimizer's step", "collective": "a collective of torch.distributed",
    "call": "a call of the model", "buffers": "a call of the model",
    "check": "the end of its first step", "end": "the end of the cell",
}  # fmt: skip
_STEP, _END = KINDS.index("step"), KINDS.index("end")
_DECIDE_ALIKE = (
    "An `if` there depends on that rank's own loss or data. Reduce that loss or data over all ranks first "
    "(torch.distributed.all_reduce), so that all ranks decide alike."
)
_REDUCE = "Reduce that loss or data over all ranks first (torch.distributed.all_reduce): all ranks then have the same value."


class RunStopped(BaseException):
    """Raised in the cell, when the step that all ranks agreed on is over."""


class RanksParted(RunStopped):
    """Raised in the cell on all ranks, where one has gone another way."""

    def after(self, steps: int) -> str:
        """As a note, with what became of the state."""
        when = f" after step {steps}" if steps else ""
        return f"Stopped{when}: {self} Your objects hold rank 0's state at that point."


def why_of_place(words: Sequence[Word], loops: Sequence[Loop]) -> str:
    """Of ranks that came to different places of the cell; the loops are those that this rank knows.

    >>> why_of_place(words, whereabouts.loops)
    'rank 1 skipped batch 7, and rank 0 did not. An `if` there depends on …'
    """
    places = [_place(word) for word in words]
    behind, ahead = places.index(min(places)), places.index(max(places))
    if places[behind] == places[ahead]:
        ahead = next(n for n, each in enumerate(words) if each.place != words[behind].place)
    return f"{_what(words[behind], words[ahead], behind, ahead, loops)} {_DECIDE_ALIKE}"


def _what(of: Word, other: Word, behind: int, ahead: int, loops: Sequence[Loop]) -> str:
    """What the rank that is ahead did otherwise than the one that is behind."""
    is_in_loop = bool(of.loop) and of.ended_loop != of.loop
    has_ended_it = is_in_loop and other.ended_loop == of.loop
    if has_ended_it and other.ended_early:
        return f"rank {ahead} left {_pass(of.loop, loops)} at batch {other.ended_batch}, and rank {behind} went on."
    if is_in_loop and (
        other.batch > of.batch if other.loop == of.loop else has_ended_it and other.ended_batch >= of.batch
    ):
        did = "took no optimizer step on" if of.kind == _STEP else "skipped"
        skipped = (
            other.skipped if other.loop == of.loop and of.batch <= other.skipped < other.batch else of.batch
        )
        return f"rank {ahead} {did} batch {skipped}{_epoch(of.loop, loops)}, and rank {behind} did not."
    if has_ended_it:
        return (
            f"rank {ahead} has {other.ended_batch} batches in {_pass(of.loop, loops)}, and rank {behind} has more. If each "
            "rank has its own data, give all ranks the same number of batches (DistributedSampler, drop_last=True)."
        )
    if 0 < other.ended_loop < of.loop and other.loop < of.loop:
        return f"rank {ahead} went on after {_pass(other.ended_loop, loops)}, and rank {behind} began another pass."
    came, came_to = _IN_WORDS[KINDS[of.kind]], _IN_WORDS[KINDS[other.kind]]
    at = f" at batch {of.batch}{_epoch(of.loop, loops)}" if is_in_loop else ""
    return f"rank {behind} reached {came}{at}, and rank {ahead} reached {came_to if came_to != came else 'another one'}."


def why_of_numbers(words: Sequence[Word]) -> str:
    """Of ranks that train with different numbers; empty where these are equal.

    >>> why_of_numbers(words)
    'the learning rate is 0.05 on rank 0 and 0.025 on rank 1. It was computed from …'
    """
    first = words[0]
    for rank, word in enumerate(words):
        if word.parameters != first.parameters:
            counts = f"{word.parameters} parameters, and rank 0 trains {first.parameters}"
            return f"rank {rank} trains {counts}. Build the same model on all ranks."
        if word.numbers != first.numbers:
            if word.rate != first.rate:
                what = f"the learning rate is {first.rate:.6g} on rank 0 and {word.rate:.6g} on rank {rank}: it was"
            else:
                what = f"the optimizer's numbers (momentum, weight_decay, …) differ between ranks 0 and {rank}: they were"
            return f"{what} computed from that rank's own loss or data, as in ReduceLROnPlateau.step(loss). {_REDUCE}"
    return ""


def why_of_parameters(rank: int, apart: float) -> str:
    """Of ranks whose parameters are not equal any more."""
    return (
        f"the parameters of rank {rank} no longer equal those of rank 0 (relative difference {apart:.0e}). One rank "
        "alone loaded, set or updated its parameters, for example after an `if` on its own loss. Reduce the loss over all "
        "ranks first (torch.distributed.all_reduce), so that all ranks change their parameters alike."
    )


def _place(word: Word) -> tuple[bool, int, float]:
    """How far a rank is: in a loop, past it, at the end."""
    return (
        word.kind == _END,
        word.loop,
        math.inf if word.loop and word.ended_loop == word.loop else word.batch,
    )


def _pass(number: int, loops: Sequence[Loop]) -> str:
    if number > len(loops):
        return "a loop"
    loop = loops[number - 1]
    return f"the loop over {loop.name}" if loop.epoch == 1 else f"pass {loop.epoch} over {loop.name}"


def _epoch(number: int, loops: Sequence[Loop]) -> str:
    return f" of {_pass(number, loops)}" if number > len(loops) or loops[number - 1].epoch > 1 else ""
