"""One data-parallel step: gradients are exchanged a bucket at a time, while the backward pass computes the next."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

MEBIBYTE = 1 << 20
FIRST_BUCKET_BYTES = MEBIBYTE  # torch's DDP sends a small one first, so that the exchange begins early


@dataclass(frozen=True)
class StepWork:
    """What a step computes and has to exchange.

    Args:
        compute_s: Of one rank without any exchange.
        backward_share: The part of it that is the backward pass, during which buckets become ready.
        gradient_bytes: Of all parameters that are trained.
        bucket_bytes: Gradients that are sent together; torch's default is 25 MiB.
        hides: Whether an exchange goes on beside the backward pass. On CPUs it takes the cores that compute, and hides nothing.
        spread: Relative standard deviation of `compute_s` from step to step; a step ends with its slowest rank.
    """

    compute_s: float
    gradient_bytes: float
    backward_share: float = 2 / 3
    bucket_bytes: float = 25 * MEBIBYTE
    spread: float = 0.0
    hides: bool = True

    @property
    def buckets(self) -> tuple[float, ...]:
        """Their bytes, in the order in which they become ready.

        >>> [round(each / MEBIBYTE) for each in StepWork(0.1, 60 * MEBIBYTE).buckets]
        [1, 25, 25, 9]
        """
        first = min(FIRST_BUCKET_BYTES, self.bucket_bytes, self.gradient_bytes)
        rest = self.gradient_bytes - first
        whole, last = divmod(rest, self.bucket_bytes)
        return (*([first] if first else []), *[self.bucket_bytes] * int(whole), *([last] if last else []))

    def slowest_s(self, ranks: int) -> float:
        """The computing of the slowest of so many ranks: the expected largest of as many normal draws."""
        return self.compute_s * (1 + self.spread * _largest_of(ranks))


@dataclass(frozen=True)
class StepForecast:
    """A step: computing, exchanging, and what of the exchange nothing hides."""

    compute_s: float
    exchange_s: float
    exposed_s: float

    @property
    def step_s(self) -> float:
        """The whole step."""
        return self.compute_s + self.exposed_s


def forecast_step(
    work: StepWork, ranks: int, all_reduce_s: Callable[[float], float], *, slowest_of: int | None = None
) -> StepForecast:  # fmt: skip
    """A step on so many ranks, where an all-reduce of so many bytes takes `all_reduce_s`.

    >>> forecast_step(StepWork(0.1, 100e6), 8, lambda size: link.all_reduce_s(size, 8)).step_s

    Buckets become ready evenly over the backward pass, and are exchanged one after the other. `slowest_of`: how many differ
    from each other, where not all ranks do.
    """
    compute_s = work.slowest_s(slowest_of or ranks)
    backward_s = compute_s * work.backward_share
    done_s = ready_bytes = exchange_s = 0.0
    for size in work.buckets if ranks > 1 else ():
        ready_bytes += size
        takes_s = all_reduce_s(size)
        exchange_s += takes_s
        done_s = max(done_s, backward_s * ready_bytes / work.gradient_bytes) + takes_s
    return StepForecast(compute_s, exchange_s, max(0.0, done_s - backward_s) if work.hides else exchange_s)


def _largest_of(draws: int) -> float:
    """The expected largest of so many standard normal draws (Blom's approximation).

    >>> round(_largest_of(100), 2)
    2.51
    """
    from statistics import NormalDist

    return NormalDist().inv_cdf((draws - 0.375) / (draws + 0.25)) if draws > 1 else 0.0


def is_usable(seconds: float) -> bool:
    """Whether it is a time."""
    return math.isfinite(seconds) and seconds > 0
