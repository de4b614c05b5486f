"""PastTrials: the plans that were measured on this machine, newest first; what `%accel history` shows."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from accel import html_parts as html
from accel.history.records import TrialRecord
from accel.units import counted

if TYPE_CHECKING:
    import pandas

NONE_YET = "No trial was recorded yet: %accel try measures a plan."
OFF = "No history is kept: ACCEL_HISTORY is off."
SHOWN = 40


@dataclass(frozen=True)
class PastTrials:
    """Measured plans, newest first.

    >>> print(accel.history())
    >>> accel.history().to_dataframe().groupby("plan").ratio.median()
    """

    rows: tuple[TrialRecord, ...]
    file: str  # "" when the history is off
    problem: str = ""

    def __str__(self) -> str:
        lines = [
            f"{row.time[:16].replace('T', ' ')}  {speed_up(row):<34} {row.plan}  · {found(row)}"
            for row in self.rows[:SHOWN]
        ]
        return "\n".join([*(lines or [NONE_YET if self.file else OFF]), *self._small_print])

    @property
    def _small_print(self) -> list[str]:
        left_out = len(self.rows) - SHOWN
        more = [f"{left_out} older ones are in .to_dataframe()."] if left_out > 0 else []
        machines = sorted({row.machine for row in self.rows})
        return [
            *more,
            *machines,
            *([f"History: {self.file}"] if self.file else []),
            *([self.problem] if self.problem else []),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values that JSON can hold; what was not measured is None."""
        return {
            "file": self.file,
            "problem": self.problem,
            "trials": [plain(asdict(row)) for row in self.rows],
        }

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a measured plan."""
        import pandas

        return pandas.DataFrame(
            [asdict(row) for row in self.rows], columns=list(TrialRecord.__dataclass_fields__)
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        rows = [
            (row.time[:16].replace("T", " "), row.plan, speed_up(row), found(row), row.described)
            for row in self.rows[:SHOWN]
        ]
        shown = (
            html.table(["When", "Plan", "Measured", "Loss or quality", "Workload"], rows)
            if rows
            else html.note(str(self).splitlines()[0])
        )
        return {"text/plain": str(self), "text/html": html.block(shown, *map(html.note, self._small_print))}


def speed_up(row: TrialRecord) -> str:
    """Verdict and ratio with its interval, in one line; one or two seeds have none."""
    if math.isnan(row.ratio):
        return row.verdict
    if math.isnan(row.low):
        return f"{row.verdict}: about {row.ratio:.2f}×, too few seeds for an interval"
    return f"{row.verdict}: {interval(row.ratio, row.low, row.high)}"


def found(row: TrialRecord) -> str:
    """What else was found: whether the loss followed, when compiling pays off, or seconds and quality side by side.

    >>> found(row)
    'accuracy>=0.95: 3.2 s, 4.5 s without; 3 seeds; accuracy 0.953, 0.951 without'
    """
    if not row.asked:
        steps = row.break_even_steps
        return row.quality if math.isnan(steps) else f"{row.quality}; pays off after {steps:,.0f} steps"
    seconds, without = ("–" if math.isnan(s) else f"{s:.3g} s" for s in (row.seconds, row.baseline_seconds))
    seeds = counted(round(row.seeds), "seed")
    return "; ".join(filter(None, [f"{row.asked}: {seconds}, {without} without", seeds, row.quality]))


def interval(ratio: float, low: float, high: float) -> str:
    """A ratio with its interval, as everywhere.

    >>> interval(1.4, 1.1, 1.6)
    '1.40× [1.10, 1.60]'
    """
    return f"{ratio:.2f}× [{low:.2f}, {high:.2f}]"


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """NaN, which JSON has not, becomes None."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in values.items()
    }
