"""From the times that all ranks saw: overlap, waiting and bandwidth of each exchange of gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median

from accel.distributed.communication.communication_times import (
    BucketTimes,
    CommunicationTimes,
    PassTimes,
    Span,
    StepTimes,
)
from accel.machine.peaks.all_reduces import traffic

_SHORTEST_S = 1e-9


@dataclass(frozen=True)
class BucketOnRanks:
    """One bucket of one pass, as all ranks saw it."""

    parameters: int
    gradient_bytes: int
    sent_bytes: int
    ready_s: float  # since the backward pass began; means over ranks
    began_s: float
    ended_s: float
    bus_bytes_per_s: float


@dataclass(frozen=True)
class ExchangeFigures:
    """One backward pass on all ranks: means over ranks."""

    in_flight_s: float  # some bucket was on its way
    hidden_s: float  # and gradients were computed
    exposed_s: float  # and none were
    waited_s: float  # of the exposed time, another rank had not sent its last bucket
    bus_bytes_per_s: float
    buckets: tuple[BucketOnRanks, ...]


@dataclass(frozen=True)
class BucketFigures:
    """One bucket, medians over the passes; times since the backward pass began."""

    parameters: int
    gradient_bytes: int
    sent_bytes: int
    ready_ms: float
    began_ms: float
    ended_ms: float
    bus_bytes_per_s: float
    link_bytes_per_s: float | None

    @classmethod
    def of(cls, same: Sequence[BucketOnRanks], rates: Mapping[int, float]) -> BucketFigures:
        """The same bucket of several passes, next to what the link does with as many bytes or the nearest size measured."""
        sent = same[0].sent_bytes
        nearest = min(rates, key=lambda size: abs(size - sent), default=None)
        return cls(
            same[0].parameters, same[0].gradient_bytes, sent, 1e3 * median(b.ready_s for b in same),
            1e3 * median(b.began_s for b in same), 1e3 * median(b.ended_s for b in same),
            median(b.bus_bytes_per_s for b in same), None if nearest is None else rates[nearest],
        )  # fmt: skip


def exchanges_of(on_ranks: Sequence[StepTimes]) -> list[ExchangeFigures]:
    """One for each backward pass of a step that all ranks saw.

    >>> exchanges_of([step_of_rank_0, step_of_rank_1])[0].hidden_s
    """
    return [_exchange(passes) for passes in zip(*(step.passes for step in on_ranks), strict=True)]


def link_rates(ranks: Sequence[CommunicationTimes]) -> dict[int, float]:
    """Bus bandwidth of the link alone, by size: the best of several all-reduces.

    >>> link_rates(result.communication.ranks)
    """
    found: dict[int, list[float]] = {}
    for turns in zip(*(each.bare for each in ranks), strict=True):
        seconds = max(each.ended_s for each in turns) - max(each.began_s for each in turns)
        rate = traffic(len(ranks)) * turns[0].bytes / max(seconds, _SHORTEST_S)
        found.setdefault(turns[0].bytes, []).append(rate)
    return {size: max(rates) for size, rates in found.items()}


def _exchange(passes: Sequence[PassTimes]) -> ExchangeFigures:
    in_flight = [_joined([(b.began_s, b.ended_s) for b in each.buckets]) for each in passes]
    hidden = [_hidden_s(spans, each) for spans, each in zip(in_flight, passes, strict=True)]
    total = [_length(spans) for spans in in_flight]
    last_sent = max(max(b.began_s for b in each.buckets) for each in passes)
    waited = [
        min(max(last_sent - max(b.began_s for b in each.buckets), 0.0), a - h)
        for each, a, h in zip(passes, total, hidden, strict=True)
    ]
    buckets = [
        _bucket([(each.began_s, b) for each, b in zip(passes, same, strict=True)])
        for same in zip(*(each.buckets for each in passes), strict=True)
    ]
    carried = _joined([_carried(same) for same in zip(*(each.buckets for each in passes), strict=True)])
    sent = sum(b.sent_bytes for b in passes[0].buckets)
    return ExchangeFigures(
        mean(total), mean(hidden), mean(a - h for a, h in zip(total, hidden, strict=True)), mean(waited),
        traffic(len(passes)) * sent / max(_length(carried), _SHORTEST_S), tuple(buckets),
    )  # fmt: skip


def _bucket(on_ranks: Sequence[tuple[float, BucketTimes]]) -> BucketOnRanks:
    first = on_ranks[0][1]
    began, ended = _carried([b for _, b in on_ranks])
    return BucketOnRanks(
        first.parameters, first.gradient_bytes, first.sent_bytes, mean(b.ready_s - s for s, b in on_ranks),
        mean(b.began_s - s for s, b in on_ranks), mean(b.ended_s - s for s, b in on_ranks),
        traffic(len(on_ranks)) * first.sent_bytes / max(ended - began, _SHORTEST_S),
    )  # fmt: skip


def _carried(same: Sequence[BucketTimes]) -> Span:
    """From when the last rank sent it until the last one had its mean."""
    return max(b.began_s for b in same), max(b.ended_s for b in same)


def _joined(spans: Sequence[Span]) -> list[Span]:
    """The same time, in spans that do not overlap."""
    found: list[Span] = []
    for began, ended in sorted(spans):
        if found and began <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], ended))
        else:
            found.append((began, ended))
    return found


def _hidden_s(in_flight: Sequence[Span], each: PassTimes) -> float:
    """How long gradients were computed while buckets were sent: before the last was there, not while sending held the pass up."""
    held_up = _joined([(b.began_s, min(b.returned_s, each.computed_s)) for b in each.buckets])
    before = [(began, min(ended, each.computed_s)) for began, ended in in_flight if began < each.computed_s]
    both = [max(min(a[1], b[1]) - max(a[0], b[0]), 0.0) for a in before for b in held_up]
    return max(_length(before) - sum(both), 0.0)


def _length(spans: Sequence[Span]) -> float:
    return sum(ended - began for began, ended in spans)
