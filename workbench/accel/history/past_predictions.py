"""PastPredictions: what was predicted beside what was measured, and how good the predictions have been."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from accel.history.records import (
    AS_THE_NOTEBOOK_RUNS,
    UNKNOWN,
    PredictionRecord,
    TrialRecord,
    interval,
    plain,
)
from accel.shown import Shown
from accel.units import percent

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class PredictedAndMeasured:
    """One prediction, and the last trial of the plan that it was made for, if there was one.

    >>> str(row)
    'optimizer_not_fused  fused_optimizer  predicted 1.12× [1.05, 1.20]  measured 1.08× [1.07, 1.09]  inside'
    """

    predicted: PredictionRecord
    measured: TrialRecord | None = None

    @property
    def is_measured(self) -> bool:
        """Whether a trial of this plan gave a ratio."""
        return self.measured is not None and not math.isnan(self.measured.ratio)

    @property
    def why_not_scored(self) -> str:
        """Why the measured ratio says nothing of the predicted one; "" where it does, or where there is none."""
        if self.measured is None or not self.is_measured:
            return ""
        then, now = self.predicted.live, self.measured.live
        if UNKNOWN in (then, now):
            return "what was kept is not on record"
        if then != now:
            return f"predicted with {then or 'nothing'} kept, measured against {now or 'nothing'} kept"
        if self.measured.where_measured != AS_THE_NOTEBOOK_RUNS:
            return f"measured with a {self.measured.where_measured}, not {AS_THE_NOTEBOOK_RUNS}"
        return ""

    @property
    def is_scored(self) -> bool:
        """Whether a trial measured what was predicted."""
        return self.is_measured and not self.why_not_scored

    @property
    def is_inside(self) -> bool:
        """Whether the measured ratio lies in the predicted interval; False where it is not scored."""
        if self.measured is None or not self.is_scored:
            return False
        return self.predicted.low <= self.measured.ratio <= self.predicted.high

    @property
    def error(self) -> float:
        """How far the predicted ratio is off, as a factor less one: 0.1 is 10 % too much or too little; NaN unscored."""
        if self.measured is None or not self.is_scored or not self.measured.ratio > 0:
            return math.nan
        return math.exp(abs(math.log(self.predicted.ratio / self.measured.ratio))) - 1.0

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """Finding, plan, predicted, measured, and whether it lies inside or why that cannot be said."""
        measured = self.measured
        told = "not tried" if measured is None else measured.verdict
        if measured is not None and self.is_measured:
            told = interval(measured.ratio, measured.low, measured.high)
        p, inside = self.predicted, ""
        if self.is_scored:
            inside = "inside" if self.is_inside else "outside"
        elif self.why_not_scored:
            inside = f"not scored: {self.why_not_scored}"
        return p.kind, p.plan or "(an edit)", interval(p.ratio, p.low, p.high), told, inside

    def __str__(self) -> str:
        return self.line()

    def line(self, plan_width: int = 0) -> str:
        """One line; a list of them is read more easily with its columns below each other."""
        kind, plan, predicted, told, inside = self.cells
        told = f"measured {told}" if self.is_measured else told
        return f"{kind:<24}  {plan:<{plan_width}}  predicted {predicted}  {told}  {inside}".rstrip()


@dataclass(frozen=True)
class PastPredictions(Shown):
    """Predictions, newest first, each with what was measured.

    >>> print(accel.history(predictions=True))
    >>> accel.history(predictions=True).inside_share
    0.83
    """

    rows: tuple[PredictedAndMeasured, ...]
    file: str
    problem: str = ""

    @classmethod
    def of(
        cls,
        predictions: Iterable[PredictionRecord],
        trials: Iterable[TrialRecord],
        *,
        file: str,
        problem: str = "",
    ) -> PastPredictions:
        """Join each prediction with the last trial of its plan on the workload of its profile, if one can be scored with that."""
        tried: dict[tuple[str, str], list[TrialRecord]] = defaultdict(list)
        for trial in trials:
            if trial.plan and not trial.asked:  # seconds to a quality are not what was predicted
                tried[trial.profile, trial.plan].insert(0, trial)
        rows = [_joined(each, tried.get((each.profile, each.plan), [])) for each in predictions]
        return cls(tuple(reversed(rows)), file, problem)

    @property
    def measured(self) -> tuple[PredictedAndMeasured, ...]:
        """Those that a trial answered: what was predicted is what it measured."""
        return tuple(row for row in self.rows if row.is_scored)

    @property
    def inside_share(self) -> float:
        """Share of measured ratios inside the predicted interval; NaN without any."""
        return _share_inside(self.measured)

    @property
    def median_error(self) -> float:
        """Median of how far predicted ratios were off (0.1: 10 %); NaN without any."""
        return median([row.error for row in self.measured]) if self.measured else math.nan

    @property
    def sentence(self) -> str:
        """How good they have been, in one line."""
        tried = self.measured
        if not tried:
            others = any(row.is_measured for row in self.rows)
            return f"{len(self.rows)} predictions, none of them {'scored' if others else 'tried'} yet."
        inside = f"{sum(row.is_inside for row in tried)} of {len(tried)} measured speed-ups ({percent(self.inside_share, 0)})"
        return f"{inside} lay inside the predicted interval; median error {percent(self.median_error, 0)}."

    @property
    def by_kind(self) -> list[tuple[str, int, int, float, float]]:
        """(finding, predictions, measured, share inside, median error), most often measured first."""
        groups: dict[str, list[PredictedAndMeasured]] = defaultdict(list)
        for row in self.rows:
            groups[row.predicted.kind].append(row)
        told = []
        for kind, rows in groups.items():
            tried = [row for row in rows if row.is_scored]
            error = median([row.error for row in tried]) if tried else math.nan
            told.append((kind, len(rows), len(tried), _share_inside(tried), error))
        return sorted(told, key=lambda each: (-each[2], each[0]))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values that JSON can hold; what was not measured is None."""
        summary = {"inside_share": self.inside_share, "median_error": self.median_error}
        rows = [
            {
                "predicted": plain(asdict(row.predicted)),
                "measured": plain(asdict(row.measured)) if row.measured else None,
                **plain({"error": row.error}),
                "why_not_scored": row.why_not_scored,
            }
            for row in self.rows
        ]
        return {"file": self.file, "problem": self.problem, **plain(summary), "predictions": rows}

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a prediction; `measured`, `measured_low`, `measured_high` and `error` are NaN where it was not tried."""
        import pandas

        return pandas.DataFrame([_flat(row) for row in self.rows], columns=_COLUMNS)


_COLUMNS = ["time", "kind", "plan", "share", "predicted", "low", "high", "measured", "measured_low", "measured_high",
            "verdict", "is_inside", "error", "why_not_scored", "machine", "versions"]  # fmt: skip


def _joined(predicted: PredictionRecord, tried: list[TrialRecord]) -> PredictedAndMeasured:
    rows = [PredictedAndMeasured(predicted, trial) for trial in tried]
    return next((row for row in rows if row.is_scored), rows[0] if rows else PredictedAndMeasured(predicted))


def _flat(row: PredictedAndMeasured) -> dict[str, Any]:
    predicted, measured = row.predicted, row.measured
    ratios = (
        (measured.ratio, measured.low, measured.high, measured.verdict)
        if measured
        else (math.nan,) * 3 + ("",)
    )
    values = (predicted.time, predicted.kind, predicted.plan, predicted.share, predicted.ratio, predicted.low,
              predicted.high, *ratios, row.is_inside if row.is_scored else None, row.error, row.why_not_scored,
              predicted.machine, predicted.versions)  # fmt: skip
    return dict(zip(_COLUMNS, values, strict=True))


def _share_inside(rows: Iterable[PredictedAndMeasured]) -> float:
    inside = [row.is_inside for row in rows]
    return sum(inside) / len(inside) if inside else math.nan
