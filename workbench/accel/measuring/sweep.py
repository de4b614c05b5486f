"""Processes × threads (or GPUs) with time, speed-up, efficiency and quality: the tables of the course, for any cell."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from accel.measuring.interval import LEAST_SEEDS, OverSeeds
from accel.measuring.sweep_knee import RULE, WITHIN, Knee, knees
from accel.measuring.sweep_row import SweepRow, SweptRun
from accel.shown import Drawn

_PER_RANK = (
    "Each process takes batches of yours, so that a step of n processes trains on n times the samples and there are fewer steps: "
    "look at what is learnt, too. --batch global keeps the steps as they are."
)
WORSE_ACCURACY, WORSE_LOSS = 0.1, 1.5  # so much less, so many times: far beyond what a seed moves
_ONE_SEED = "Every run starts from the same state: a small difference in quality may be that of another seed."


@dataclass(frozen=True)
class Sweep(Drawn):
    """What each configuration took; the first one that was measured is what speed-ups and efficiencies are against.

    `bound` says where runs ended before the cell did ("100 steps"): then rates are compared, as no two trained on the same
    samples. `quality_reason` says why there is no quality.

    Examples:
        >>> sweep = accel.sweep("train(model, loader, criterion, optimizer)", processes=(1, 2), threads=(1,))
        >>> print(sweep); sweep.fastest.configuration.label; sweep.figure()
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

    @property
    def compares_rates(self) -> bool:
        """Whether rates are compared in place of times: where runs were bounded, or trained on different numbers of samples."""
        samples = [row.samples for row in self.measured]
        return bool(self.bound) or max(samples, default=0) > min(samples, default=0) * (1 + WITHIN)

    def cost(self, row: SweepRow) -> float:
        """What is compared: seconds of training, or seconds a sample; the geometric mean over rounds, as of the speed-ups."""
        if not self.compares_rates:
            return row.seconds
        return 1 / row.samples_per_s if row.samples_per_s > 0 else float("nan")

    def speed_up(self, row: SweepRow) -> OverSeeds | None:
        """How many times as fast as the reference a row is, over rounds.

        Returns:
            Mean, with an interval from three rounds on. None where there is nothing to compare.

        Examples:
            >>> sweep.speed_up(sweep.fastest).mean
        """
        return self.compared(row, self.reference)

    def compared(self, row: SweepRow, other: SweepRow | None) -> OverSeeds | None:
        """How many times as fast as another row it is, over rounds: each run is compared with the other's of the same round.

        Returns:
            Mean, with an interval from three rounds on. None where there is nothing to compare.

        Examples:
            >>> sweep.compared(sweep.fastest, sweep.best_single).low
        """
        if other is None or not row.runs:
            return None
        logs = [math.log(ratio) for ratio in map(self._ratio, other.runs, row.runs) if ratio > 0]
        return OverSeeds.of(logs).exponentiated() if logs else None

    def is_told_apart(self, row: SweepRow, other: SweepRow) -> bool:
        """Whether their difference is more than 5 %, and all on one side of none over the rounds."""
        ratio = self.compared(row, other)
        if ratio is None or 1 <= max(ratio.mean, 1 / ratio.mean) <= 1 + WITHIN:
            return False
        return ratio.low > 1 or ratio.high < 1

    @property
    def tied(self) -> tuple[SweepRow, ...]:
        """The fastest row and those that cannot be told from it, fastest first."""
        fastest = self.fastest
        if fastest is None:
            return ()
        others = [
            row for row in self._comparable if row is not fastest and not self.is_told_apart(fastest, row)
        ]
        return (fastest, *sorted(others, key=self.cost))

    @property
    def winner(self) -> SweepRow | None:
        """The fastest row, where it can be told from all others."""
        return self.fastest if len(self.tied) == 1 else None

    def _ratio(self, one: SweptRun, other: SweptRun) -> float:
        """How many times as fast the other run is; 0 where its samples were not counted."""
        if self.compares_rates:
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
        return knees(self.rows, self.cost, self.is_told_apart)

    def shown_cost(self, cost: float) -> str:
        """A cost as a reader knows it: seconds, or samples a second."""
        return f"{1 / cost:,.0f} samples/s" if self.compares_rates else shown_seconds(cost)

    @property
    def answer(self) -> str:
        """The sweep in a sentence."""
        return _answer(self)

    @property
    def remarks(self) -> list[str]:
        """What a reader must know: knees, how long, against what, how sure."""
        sentences = [knee.sentence(self.shown_cost) for knee in self.knees]
        if sentences:
            sentences[-1] += f" {RULE}"
        sentences.append(self._against)
        if self.bound:
            sentences.append(
                f"Each run ended after {self.bound}: rates are compared, without the first step, and quality is after as many "
                "samples as its row says."
            )
        elif self.compares_rates:
            sentences.append(
                "The rows did not train on the same number of samples: rates are compared, without the first step, and time and "
                "quality are after as many samples as the row says."
            )
        if self.batch == "per-rank" and any(row.configuration.processes > 1 for row in self.measured):
            sentences.append(_PER_RANK)
        sentences += [
            self.metric_line,
            _ONE_SEED if any(row.quality is not None for row in self.rows) else "",
            self.quality_reason,
            *self.notes,
            self._certainty,
            self.why_ended,
        ]
        return [each for each in sentences if each]

    @property
    def _certainty(self) -> str:
        if not self.measured:
            return ""
        counts = [len(row.runs) for row in self.measured]
        fewest, most = min(counts), max(counts)
        if most == 1:
            return "One round gives no interval; the ratios include drift of the machine: see --rounds 3."
        rounds = f"{most} rounds" if fewest == most else f"{fewest} to {most} rounds"
        what = "ranges" if most < LEAST_SEEDS else "95 % intervals"
        what += f" ({LEAST_SEEDS} rounds or more) or ranges" if fewest < LEAST_SEEDS <= most else ""
        return f"{rounds}, in an order drawn anew for each; in brackets {what} of the speed-up over rounds."

    @property
    def _against(self) -> str:
        first, reference = self.rows[0], self.reference
        if reference is None:
            return ""
        absent = "" if reference is first else f", as {first.configuration.words} has no time"
        return (
            f"Speed-up and efficiency are against {reference.configuration.words}{absent}. Time is of training: without "
            "start-up and evaluation."
        )

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
            "communication_share": row.communication_share
            if known and not math.isnan(row.communication_share) else None, "quality": row.quality,
        }  # fmt: skip


def shown_seconds(seconds: float) -> str:
    """Seconds to three digits.

    >>> shown_seconds(73.04)
    '73 s'
    """
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.3g} s"


def _answer(sweep: Sweep) -> str:
    """What is fastest, against the best single process, and where the model learnt much less."""
    fastest, single = sweep.fastest, sweep.best_single
    if fastest is None:
        return (
            "No row can be compared: no samples were counted." if sweep.measured else "Nothing was measured."
        )
    return " ".join([f"{_head(sweep, fastest)}{_against_single(sweep, fastest, single)}.", *_warnings(sweep)])


def is_much_worse(sweep: Sweep, row: SweepRow) -> bool:
    """Whether its model is much worse than that of the first row; of a metric of the user's only that it is no number."""
    first = sweep.reference.quality if sweep.reference is not None else None
    if first is None or row.quality is None or not math.isfinite(first):
        return False
    if not math.isfinite(row.quality):
        return True
    if sweep.metric == "accuracy":
        return row.quality < first - WORSE_ACCURACY
    return sweep.metric == "loss" and row.quality - first > (WORSE_LOSS - 1) * abs(first)


def _head(sweep: Sweep, fastest: SweepRow) -> str:
    tied = sweep.tied
    if len(tied) == 1:
        return f"Fastest: {fastest.configuration.words}, {sweep.shown_cost(sweep.cost(fastest))}"
    shown = [f"{row.configuration.words} ({sweep.shown_cost(sweep.cost(row))})" for row in tied]
    return f"Fastest: {', '.join(shown[:-1])} and {shown[-1]}, statistically tied"


def _against_single(sweep: Sweep, fastest: SweepRow, single: SweepRow | None) -> str:
    if single is None:
        return "; one process alone was not measured"
    if fastest is single:
        more = any(row.configuration.processes > 1 for row in sweep.measured)
        return "; more processes do no better" if more else ""
    words = ""
    if single not in sweep.tied and (ratio := sweep.compared(fastest, single)) is not None:
        spread = f" ({ratio.low:.2f}–{ratio.high:.2f})" if ratio.seeds > 1 else ""
        words = (
            f": {ratio.mean:.2f} times{spread} as fast as the best single process ({single.configuration.words}, "
            f"{sweep.shown_cost(sweep.cost(single))})"
        )
    if fastest.quality is not None and single.quality is not None:
        words += f"; {sweep.metric} {fastest.quality:.4g} against {single.quality:.4g}"
    return words


def _warnings(sweep: Sweep) -> list[str]:
    worse = [
        f"{row.configuration.label} ({row.quality:.4g})"
        for row in sweep.measured
        if is_much_worse(sweep, row)
    ]
    if not worse or sweep.reference is None:
        return []
    first = sweep.reference
    return [
        f"The model learnt much less than with {first.configuration.label} ({sweep.metric} {first.quality:.4g}) in "
        f"{', '.join(worse)}: those times buy no such model."
    ]
