"""What exchanging gradients cost a run: how much of it is hidden behind the backward pass, bucket by bucket, and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import mean, median
from typing import Any

import msgspec

from accel.distributed.communication.communication_advice import advice_for
from accel.distributed.communication.communication_figures import (
    BucketFigures,
    BucketOnRanks,
    ExchangeFigures,
    exchanges_of,
    link_rates,
)
from accel.distributed.communication.communication_times import CommunicationTimes, StepTimes
from accel.shown import Shown
from accel.units import percent


@dataclass(frozen=True)
class CommunicationReport(Shown):
    """Some steps of each rank, after DistributedDataParallel has settled.

    >>> result = accel.ddp(cell, n=2, communication=True)
    >>> result.communication.overlap, result.communication.exposed_ms

    Bus bandwidth is that of nccl-tests: 2·(n − 1)/n of the bytes, over the time from the moment that the last rank sent the
    bucket until all ranks had its mean. `the link alone` is the same for an all-reduce after the training, on the same ranks.
    """

    ranks: tuple[CommunicationTimes, ...]
    backend: str
    compress: str = "none"

    @property
    def why_none(self) -> str:
        """Why there is nothing to tell; empty where there is."""
        if self._exchanges:
            return ""
        reason = next((each.why_none for each in self.ranks if each.why_none), "")
        return reason or "no step was seen on all ranks"

    @property
    def steps(self) -> int:
        """That were watched, on all ranks."""
        return len(self._steps)

    @property
    def step_ms(self) -> float:
        """A watched step: mean over ranks, median over steps."""
        return 1e3 * median(self._lengths_s)

    @property
    def overlap(self) -> float:
        """The share of the exchange that went on while gradients were still computed, from 0 to 1."""
        in_flight = sum(each.in_flight_s for each in self._exchanges)
        return sum(each.hidden_s for each in self._exchanges) / in_flight if in_flight else 0.0

    @property
    def exposed_ms(self) -> float:
        """Of a step, how long a rank had nothing to do but wait for means: mean over ranks, median over steps."""
        return 1e3 * median(self._exposed_s)

    @property
    def waited_ms(self) -> float:
        """Of that, how long another rank had not even sent its last bucket."""
        return 1e3 * median(sum(each.waited_s for each in step) for step in self._by_step)

    @property
    def exposed_share(self) -> float:
        """Of a step: median over steps."""
        return median(of / length for of, length in zip(self._exposed_s, self._lengths_s, strict=True))

    @property
    def bus_bytes_per_s(self) -> float:
        """Of all buckets of a pass together."""
        return median(each.bus_bytes_per_s for each in self._exchanges)

    @cached_property
    def buckets(self) -> tuple[BucketFigures, ...]:
        """Of the most frequent kind of pass, in the order in which they are sent; medians over steps and ranks.

        Of several kinds that are as frequent, as where two models are trained in turn: of that with the most gradients.
        """
        if not self._kinds:
            return ()
        alike = self._kinds[max(self._kinds, key=lambda kind: (len(self._kinds[kind]), sum(kind)))]
        rates = link_rates(self.ranks)
        return tuple(BucketFigures.of(list(same), rates) for same in zip(*alike, strict=True))

    @property
    def advice(self) -> list[str]:
        """What to try, or that there is nothing to gain."""
        return advice_for(self) if self._exchanges else []

    @cached_property
    def _steps(self) -> list[list[StepTimes]]:
        """(rank 0's, rank 1's, …) of each step that all ranks saw alike."""
        by_number = [{step.step: step for step in each.steps} for each in self.ranks]
        shared = [n for n in by_number[0] if all(n in on_rank for on_rank in by_number)] if by_number else []
        steps = [[on_rank[n] for on_rank in by_number] for n in shared]
        return [each for each in steps if len({_shape(step) for step in each}) == 1]

    @cached_property
    def _by_step(self) -> list[list[ExchangeFigures]]:
        return [exchanges_of(on_ranks) for on_ranks in self._steps]

    @cached_property
    def _exchanges(self) -> list[ExchangeFigures]:
        return [each for step in self._by_step for each in step]

    @cached_property
    def _kinds(self) -> dict[tuple[int, ...], list[tuple[BucketOnRanks, ...]]]:
        """The buckets of all passes, by their bytes of gradients."""
        found: dict[tuple[int, ...], list[tuple[BucketOnRanks, ...]]] = {}
        for each in self._exchanges:
            found.setdefault(tuple(b.gradient_bytes for b in each.buckets), []).append(each.buckets)
        return found

    @property
    def _exposed_s(self) -> list[float]:
        return [sum(each.exposed_s for each in step) for step in self._by_step]

    @property
    def _lengths_s(self) -> list[float]:
        return [mean(step.ended_s - step.began_s for step in on_ranks) for on_ranks in self._steps]

    @property
    def typical_step(self) -> Sequence[StepTimes]:
        """One that took the usual time, as each rank saw it."""
        return sorted(self._steps, key=lambda on_ranks: mean(s.ended_s - s.began_s for s in on_ranks))[
            len(self._steps) // 2
        ]

    @property
    def line(self) -> str:
        """The finding in one line."""
        if self.why_none:
            return f"Communication: nothing was seen. {self.why_none[:1].upper()}{self.why_none[1:]}."
        waited = f", {self.waited_ms:.1f} ms of it for a slower rank" if self.waited_ms >= 0.1 else ""
        return (
            f"Of a step of {self.step_ms:.1f} ms, {self.exposed_ms:.1f} ms ({percent(self.exposed_share, 0)}) wait for "
            f"gradients to be exchanged{waited}; {percent(self.overlap, 0)} of the exchange is hidden behind the backward pass."
        )

    @property
    def note(self) -> str:
        """What the figures belong to."""
        others = len(self._exchanges) - len(
            self._kinds.get(tuple(b.gradient_bytes for b in self.buckets), [])
        )
        more = f" {others} passes with other gradients are not among the buckets." if others else ""
        return (
            f"{self.steps} steps of {len(self.ranks)} ranks over {self.backend}, compression: {self.compress}. Times from the "
            "beginning of the backward pass, medians. With nothing else to do, the same ranks exchange as the last column says."
            f"{more}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Every figure as plain values, with the times of each rank."""
        found: dict[str, Any] = {
            "backend": self.backend, "compress": self.compress, "why_none": self.why_none, "steps": self.steps,
            "ranks": msgspec.to_builtins(self.ranks), "buckets": [asdict(each) for each in self.buckets], "advice": self.advice,
        }  # fmt: skip
        if self._exchanges:
            names = ("step_ms", "overlap", "exposed_ms", "exposed_share", "waited_ms", "bus_bytes_per_s")
            found |= {name: getattr(self, name) for name in names}
        return found

    def to_dataframe(self) -> Any:
        """One row for each bucket of each step on each rank, in seconds of the machine's clock."""
        import pandas

        return pandas.DataFrame(
            [
                {"rank": rank, "step": step.step, "pass": number} | msgspec.to_builtins(bucket)
                for rank, times in enumerate(self.ranks)
                for step in times.steps
                for number, each in enumerate(step.passes)
                for bucket in each.buckets
            ]
        )


def _shape(step: StepTimes) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(bucket.gradient_bytes for bucket in each.buckets) for each in step.passes)
