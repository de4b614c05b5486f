"""Checks of what ranks do together: shares of a data set, a ring all-reduce, and the time of a step that hides its exchange."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from accel.labs.exercises.seen import Seen, function_of, is_near, outcome
from accel.units import counted

if TYPE_CHECKING:
    import torch

SHARES = ((10, 2), (7, 2), (10, 3), (64, 4), (5, 8), (1, 1))  # samples, ranks
STEPS = ((20, 40, 5, 10, 50), (20, 40, 5, 10, 15), (10, 30, 2, 5, 0), (8, 16, 4, 16, 12))


@dataclass
class Wire:
    """What the student's all-reduce sends by: numbers between neighbours, counted.

    >>> wire.send(0, 1, piece); wire.receive(0, 1)
    """

    ranks: int
    sent: list[int] = field(default_factory=list)
    strangers: list[tuple[int, int]] = field(default_factory=list)
    waiting: dict[tuple[int, int], list[torch.Tensor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sent = [0] * self.ranks

    def send(self, sender: int, receiver: int, piece: torch.Tensor) -> None:
        """Send a piece to a rank."""
        self.sent[sender] += piece.numel()
        if receiver != (sender + 1) % self.ranks:
            self.strangers.append((sender, receiver))
        self.waiting.setdefault((sender, receiver), []).append(piece.clone())

    def receive(self, sender: int, receiver: int) -> torch.Tensor:
        """The oldest piece that was sent this way and not received yet."""
        pieces = self.waiting.get((sender, receiver), [])
        if not pieces:
            raise LookupError(f"rank {receiver} waits for rank {sender}, which has sent it nothing")
        return pieces.pop(0)


def ring_all_reduce(function: object, *, ranks: list[int]) -> Seen:
    """Whether function(tensors, wire) leaves the sum in each rank, and sends less than twice the tensor from any of them.

    >>> ring_all_reduce(lambda tensors, wire: None, ranks=[2, 4]).passed
    False
    """
    work = function_of(function)
    asked = (
        "The sum in every rank; each sends at most 2 (n − 1) / n of a tensor, to its right neighbour alone."
    )
    for count in ranks:
        if problem := _of_one_ring(work, count):
            return Seen(
                False, f"With {count} ranks, {problem[0]}", asked, {"ranks": float(count)}, problem[1]
            )
    saw = f"Every rank has the sum, with {', '.join(map(str, ranks))} ranks."
    return Seen(True, saw, asked, {"sizes": float(len(ranks))})


def _of_one_ring(work: Callable[..., object], count: int) -> tuple[str, str] | None:
    """What is wrong with the all-reduce of so many ranks, and a hint."""
    import torch

    length = 12 * count
    tensors = [torch.arange(length, dtype=torch.float64) * (rank + 1) + rank for rank in range(count)]
    right, wire = torch.stack(tensors).sum(0), Wire(count)
    said = outcome(work, tensors, wire)
    if isinstance(said, str):
        return f"it raised {said}.", ""
    for rank, each in enumerate(tensors):
        if not isinstance(each, torch.Tensor) or each.shape != right.shape or not torch.allclose(each, right):
            hint = "First, sums travel round until each rank has one finished piece. Then the finished pieces travel round."
            return f"rank {rank} does not have the sum.", hint
    if wire.strangers:
        sender, receiver = wire.strangers[0]
        return f"rank {sender} sent to rank {receiver}.", "In a ring a rank knows its right neighbour only."
    least, most, allowed = min(wire.sent), max(wire.sent), 2 * (count - 1) * length // count
    if least < length:  # a sum that a rank has received is as long as its tensor
        hint = "Between ranks there is only the wire: what a rank adds of others it has received."
        return f"one sent {least / length:.2f} times its tensor: sums came past the wire.", hint
    if most > allowed:
        hint = "Cut the tensor into as many pieces as there are ranks, and send one piece at a time."
        return f"one sent {most / length:.2f} times its tensor; {allowed / length:.2f} is enough.", hint
    return None


def shared_out(function: object) -> Seen:
    """Whether function(samples, ranks, rank) gives indices as DistributedSampler does: all samples, equally many for each rank.

    >>> shared_out(lambda samples, ranks, rank: range(rank, samples, ranks)).passed
    False
    """
    work = function_of(function)
    asked = "Every sample in some rank, equally many for each, as few twice as possible."
    for samples, ranks in SHARES:
        parts = [_indices(work, samples, ranks, rank) for rank in range(ranks)]
        if any(part is None for part in parts):
            return Seen(
                False, f"For {samples} samples and {counted(ranks, 'rank')} it gives no indices.", asked
            )
        sizes = [len(part) for part in parts if part is not None]
        every = [index for part in parts if part is not None for index in part]
        told = f"Of {samples} samples, {counted(ranks, 'rank')} take {', '.join(map(str, sizes))}"
        if set(every) != set(range(samples)):
            return Seen(
                False,
                f"{told}; not every sample is taken.",
                asked,
                {},
                "Rank r takes r, r + n, r + 2n …; together that is every sample.",
            )
        if len(set(sizes)) > 1:
            return Seen(
                False,
                f"{told}.",
                asked,
                {},
                "The rank with one sample more has one step more, and waits in it for ever. Repeat some samples.",
            )
        if len(every) > -(-samples // ranks) * ranks:
            return Seen(
                False,
                f"{told}: more than needed.",
                asked,
                {},
                "Round the number of samples of a rank up, no further.",
            )
    return Seen(
        True,
        f"Right for {len(SHARES)} sizes, those that cannot be divided included.",
        asked,
        {"sizes": float(len(SHARES))},
    )


def _indices(function: Callable[..., object], samples: int, ranks: int, rank: int) -> Sequence[int] | None:
    try:
        return [int(index) for index in function(samples, ranks, rank)]  # type: ignore[attr-defined]
    except Exception:  # what the student's function does is the answer: none
        return None


def hidden_exchange(function: object) -> Seen:
    """Whether function(forward, backward, update, first, exchange) → ms of a step with the exchange behind the backward pass.

    >>> hidden_exchange(lambda forward, backward, update, first, exchange: forward + backward + update + exchange).passed
    False
    """
    work = function_of(function)
    asked = "The time of a step in ms, for any times of its parts."
    draw = random.Random(0)
    cases = [*STEPS, *(tuple(draw.randint(1, 60) for _ in range(5)) for _ in range(20))]
    for forward, backward, update, first, exchange in cases:
        first = min(first, backward)
        right = forward + max(backward, first + exchange) + update
        given = outcome(work, forward, backward, update, first, exchange)
        if not is_near(given, right):
            times = f"forward {forward}, backward {backward}, update {update}, first bucket {first}, exchange {exchange}"
            saw = f"For {times} ms your function gives {given}."
            hint = "From the first bucket on, computing and exchange run at the same time. The update waits for the later end."
            if is_near(given, forward + backward + update + exchange):
                hint = "This adds the exchange to the backward pass. Most of it runs behind that pass."
            return Seen(False, saw, asked, {}, hint)
    return Seen(True, f"Right for {len(cases)} steps.", asked, {"steps": float(len(cases))})
