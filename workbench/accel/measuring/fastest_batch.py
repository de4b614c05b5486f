"""Which batch trains the most samples a second: measured sizes, and the smallest that no other is shown to beat."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from accel.measuring.comparison import Comparison, Interval
from accel.measuring.took import Took
from accel.shown import Drawn
from accel.units import size

AS_IT_IS = Interval(1.0, 1.0, 1.0, 0, 0)  # the present batch, against itself


@dataclass(frozen=True)
class BatchRung:
    """One size of batch: the plan that gives it and what was measured; no row for the batch that the cell has."""

    batch: int
    plan: str
    row: Comparison | None = None

    @property
    def speed(self) -> Interval | None:
        """Samples a second against the present batch, as its row shows them; None if it was not measured."""
        if self.row is None:
            return AS_IT_IS
        return self.row.shown if self.row.state in ("done", "stopped") else None

    @property
    def sentence(self) -> str:
        """What is known of it, in words."""
        return "as it is" if self.row is None else self.row.sentence


@dataclass(frozen=True)
class FastestBatch(Drawn):
    """Sizes of batch, smallest first, each compared per sample with the present one.

    >>> print(accel.fastest_batch())
    """

    rungs: tuple[BatchRung, ...]
    present: int
    machine_line: str
    took: Took | None = None

    @property
    def fastest(self) -> BatchRung:
        """The smallest batch that no other is shown to beat: where intervals overlap, nothing speaks for the larger."""
        best = self.highest_speed
        return next(rung for rung in self.rungs if rung.speed and _is_as_fast(rung.speed, best))

    @property
    def alike(self) -> tuple[BatchRung, ...]:
        """The other batches that could not be told apart from the fastest."""
        best, fastest = self.highest_speed, self.fastest
        return tuple(r for r in self.rungs if r is not fastest and r.speed and _is_as_fast(r.speed, best))

    @property
    def largest(self) -> BatchRung:
        """The largest batch that could not be told apart from the fastest."""
        return max((self.fastest, *self.alike), key=lambda rung: rung.batch)

    def peak_bytes(self, rung: BatchRung) -> int | None:
        """Memory at the peak of training with that batch; of the present one as a trial of another saw it."""
        if rung.row is not None:
            return rung.row.peak_bytes[1] if rung.row.peak_bytes else None
        seen = [each.row.peak_bytes[0] for each in self.rungs if each.row is not None and each.row.peak_bytes]
        return max(seen, default=None)

    @property
    def highest_speed(self) -> Interval:
        """That of the batch with the most samples a second."""
        return max((rung.speed for rung in self.rungs if rung.speed), key=lambda speed: speed.ratio)

    @property
    def answer(self) -> str:
        """The answer in a sentence or two."""
        fastest, larger = self.fastest, [str(rung.batch) for rung in self.alike]
        if fastest.row is None:
            first = f"Fastest: {self.present:,} samples, the batch that you have."
        else:
            shown = fastest.row.shown or fastest.speed
            first = f"Fastest: {fastest.batch:,} samples ({shown} per sample, against {self.present:,})."
        if larger:
            verb = "is" if len(larger) == 1 else "are"
            first += f" {' and '.join(larger)} {verb} not distinguishable from it: the smallest is taken."
        return f"{first}{self._of_memory}"

    @property
    def _of_memory(self) -> str:
        """What the answer takes, and the largest batch that is not distinguishable from it."""
        named = list(dict.fromkeys([self.fastest.batch, self.largest.batch]))
        peaks = {rung.batch: self.peak_bytes(rung) for rung in self.rungs if rung.batch in named}
        takes = [f"{batch:,} takes {size(peak)}" for batch, peak in sorted(peaks.items()) if peak]
        if len(named) == 1:
            return f" Memory at its peak: {size(peak)}." if (peak := peaks[named[0]]) else ""
        largest = f" The largest of these: {self.largest.batch:,} samples."
        return f"{largest} At the peak of memory {' and '.join(takes)}." if takes else largest

    @property
    def advice(self) -> str:
        """What to do with the answer, and what it does not say."""
        plan = self.fastest.plan
        if not plan:
            return ""
        return (
            f"%accel keep {plan} makes it live. It changes training: with larger batches an epoch has fewer updates, with "
            f'smaller ones more. Compare the time to the same quality first: %accel try {plan} --until "accuracy>=0.95"'
        )

    def to_dict(self) -> dict[str, Any]:
        """Sizes with what was measured of each, and the answer."""
        return {
            **asdict(self),
            "fastest": self.fastest.batch,
            "largest_as_fast": self.largest.batch,
            "answer": self.answer,
        }

    def to_dataframe(self) -> Any:
        """One row a size: batch, plan, ratio, low, high, step_ms, peak bytes, what is known (pandas)."""
        import pandas

        return pandas.DataFrame([_flat(self, rung) for rung in self.rungs])


def is_faster(one: Interval | None, other: Interval | None) -> bool:
    """Whether the first is shown to be faster: its whole interval lies above the other's."""
    return one is not None and other is not None and one.low > other.high


def _is_as_fast(one: Interval, best: Interval) -> bool:
    return not is_faster(best, one)


def _flat(result: FastestBatch, rung: BatchRung) -> dict[str, Any]:
    speed, row, peak = rung.speed, rung.row, result.peak_bytes(rung)
    return {
        "batch": rung.batch,
        "plan": rung.plan,
        "ratio": speed.ratio if speed else float("nan"),
        "low": speed.low if speed else float("nan"),
        "high": speed.high if speed else float("nan"),
        "step_ms": row.candidate_ms if row else float("nan"),
        "peak_bytes": float("nan") if peak is None else peak,
        "is_fastest": rung is result.fastest,
        "known": rung.sentence,
    }
