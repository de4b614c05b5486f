"""Processes × threads (or GPUs) with time, speed-up, efficiency and quality: the tables of the course, for any cell."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from accel.measuring.seed_statistics import OverSeeds
from accel.measuring.sweep_knee import RULE, Knee, knees
from accel.measuring.sweep_row import SweepRow, SweptRun

if TYPE_CHECKING:
    import plotly.graph_objects

_PER_RANK = (
    "Each process takes batches of yours, so that a step of n processes trains on n times the samples and there are fewer steps: "
    "look at what is learnt, too. --batch global keeps the steps as they are."
)


@dataclass(frozen=True)
class Sweep:
    """What each configuration took; the first one that was measured is what speed-ups and efficiencies are against.

    >>> sweep = accel.sweep(processes=(1, 2), threads=(1, 2))
    >>> print(sweep); sweep.fastest.configuration.label; sweep.figure()

    `bound` says where runs ended before the cell did ("100 steps"): then rates are compared, as no two trained on the same
    samples. `quality_reason` says why there is no quality.
    """

    rows: tuple[SweepRow, ...]
    machine_line: str = ""
    rounds: int = 1
    bound: str = ""
    batch: str = "per-rank"
    metric: str = ""
    metric_line: str = ""
    quality_reason: str = ""
    notes: tuple[str, ...] = ()
    why_ended: str = ""

    @property
    def measured(self) -> tuple[SweepRow, ...]:
        """The rows that have a time."""
        return tuple(row for row in self.rows if row.runs)

    @property
    def reference(self) -> SweepRow | None:
        """What speed-ups are against: the first row that was measured."""
        return next(iter(self.measured), None)

    @property
    def fastest(self) -> SweepRow | None:
        """The row that trains the same samples in the least time."""
        return min(self._comparable, key=self.cost, default=None)

    @property
    def best_single(self) -> SweepRow | None:
        """The fastest row of one process."""
        alone = [row for row in self._comparable if row.configuration.processes == 1]
        return min(alone, key=self.cost, default=None)

    @property
    def _comparable(self) -> list[SweepRow]:
        return [row for row in self.measured if self.cost(row) > 0]

    def cost(self, row: SweepRow) -> float:
        """What is compared: seconds of training, or, where runs were bounded, seconds a sample."""
        if not self.bound:
            return row.seconds
        return 1 / row.samples_per_s if row.samples_per_s > 0 else float("nan")

    def speed_up(self, row: SweepRow) -> OverSeeds | None:
        """Against the reference, over rounds: each is compared with the same round's. None where there is nothing to compare.

        >>> sweep.speed_up(sweep.fastest).mean
        """
        reference = self.reference
        if reference is None or not row.runs:
            return None
        logs = [math.log(ratio) for ratio in map(self._ratio, reference.runs, row.runs) if ratio > 0]
        if not logs:
            return None
        return OverSeeds.of(logs).exponentiated()

    def _ratio(self, one: SweptRun, other: SweptRun) -> float:
        """How many times as fast the other run is; 0 where its samples were not counted."""
        if self.bound:
            return other.samples_per_s / one.samples_per_s if one.samples_per_s > 0 else 0.0
        return one.seconds / other.seconds if other.seconds > 0 else 0.0

    def efficiency(self, row: SweepRow) -> float | None:
        """The speed-up against as many times the CPUs or GPUs as it uses; 1 is perfect."""
        speed_up, reference = self.speed_up(row), self.reference
        if speed_up is None or reference is None:
            return None
        return speed_up.mean * reference.configuration.units / row.configuration.units

    @property
    def knees(self) -> tuple[Knee, ...]:
        """Where more threads, processes or GPUs do no more."""
        return knees(self.rows, self.cost)

    def shown_cost(self, cost: float) -> str:
        """A cost as a reader knows it: seconds, or samples a second."""
        return f"{1 / cost:,.0f} samples/s" if self.bound else shown_seconds(cost)

    @property
    def answer(self) -> str:
        """The sweep in a sentence."""
        fastest, single = self.fastest, self.best_single
        if fastest is None:
            return (
                "Nothing was measured."
                if not self.measured
                else "No row can be compared: no samples were counted."
            )
        head = f"Fastest: {fastest.configuration.words}, {self.shown_cost(self.cost(fastest))}"
        if single is None:
            return f"{head}; one process alone was not measured."
        if fastest is single:
            more = any(row.configuration.processes > 1 for row in self._comparable)
            return f"{head}; more processes do no better." if more else f"{head}."
        ratio = self.cost(single) / self.cost(fastest)
        against = f"{single.configuration.words}, {self.shown_cost(self.cost(single))}"
        quality = ""
        if fastest.quality is not None and single.quality is not None:
            quality = f"; {self.metric} {fastest.quality:.4g} against {single.quality:.4g}"
        return f"{head}: {ratio:.2f} times as fast as the best single process ({against}){quality}."

    @property
    def remarks(self) -> list[str]:
        """What a reader must know: knees, how long, against what, how sure."""
        told = [knee.sentence(self.shown_cost) for knee in self.knees]
        if told:
            told[-1] += f" {RULE}"
        if (reference := self.reference) is not None:
            told.append(
                f"Speed-up and efficiency are against {reference.configuration.words}. Time is of training: without start-up "
                "and evaluation."
            )
        if self.bound:
            told.append(
                f"Each run ended after {self.bound}: rates are compared, without the first step, and quality is after as many "
                "samples as its row says."
            )
        if self.batch == "per-rank" and any(row.configuration.processes > 1 for row in self.measured):
            told.append(_PER_RANK)
        told += [self.metric_line, self.quality_reason, *self.notes, self._certainty, self.why_ended]
        return [each for each in told if each]

    @property
    def _certainty(self) -> str:
        if not self.measured:
            return ""
        if self.rounds == 1:
            return "One round has no interval, and what the machine drifts meanwhile is in the ratios: see --rounds 3."
        what = "95 % intervals" if self.rounds > 2 else "ranges"
        return f"{self.rounds} rounds, in an order drawn anew for each; in brackets {what} of the speed-up over rounds."

    def __str__(self) -> str:
        from accel.measuring.sweep_view import sweep_text

        return sweep_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Every figure as plain values: rows with speed-up and efficiency, knees, and what they are worth."""
        rows = [asdict(row) | self._figures(row) for row in self.rows]
        found = [
            {"what": k.what, "where": k.where, "at": k.at, "is_reached": k.is_reached} for k in self.knees
        ]
        return asdict(self) | {"rows": rows, "knees": found, "answer": self.answer, "remarks": self.remarks}

    def to_dataframe(self) -> Any:
        """One row a configuration (pandas)."""
        import pandas

        return pandas.DataFrame(
            [{**asdict(row.configuration), **self._figures(row), "reason": row.reason} for row in self.rows]
        )

    def _figures(self, row: SweepRow) -> dict[str, Any]:
        speed_up = self.speed_up(row)
        known = bool(row.runs)
        return {
            "label": row.configuration.label, "seconds": row.seconds if known else None,
            "samples_per_s": row.samples_per_s if known else None, "samples": row.samples,
            "speed_up": speed_up.mean if speed_up else None, "low": speed_up.low if speed_up else None,
            "high": speed_up.high if speed_up else None, "efficiency": self.efficiency(row),
            "communication_share": row.communication_share if known else None, "quality": row.quality,
        }  # fmt: skip

    def figure(self) -> plotly.graph_objects.Figure:
        """Time and quality over processes × threads, beside each other (plotly)."""
        from accel.measuring.sweep_figure import sweep_figure

        return sweep_figure(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from accel.measuring.sweep_view import sweep_html

        return {"text/plain": str(self), "text/html": sweep_html(self)}


def shown_seconds(seconds: float) -> str:
    """Seconds to three digits.

    >>> shown_seconds(73.04)
    '73 s'
    """
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.3g} s"
