"""The answer of a whole trial: one row a plan against the baseline, best first, with what it was measured on."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from accel.measuring.comparison import Comparison
from accel.measuring.summary import may_be_recommended, summary_of
from accel.measuring.summary import speed as speed
from accel.measuring.took import Took
from accel.shown import Shown
from accel.units import csv_table, markdown_table

UNCHANGED = "Your model, optimizer, random numbers, variables and environment were checked: unchanged."


@dataclass(frozen=True)
class Ladder(Shown):
    """Trial results; prints as a table, shows as HTML in a notebook.

    Examples:
        >>> ladder = accel.try_("channels_last", "intraop_threads", budget_s=30)
        >>> print(ladder)
        >>> ladder["channels_last"].verdict, ladder.best
    """

    rows: tuple[Comparison, ...]
    baseline_ms: float
    machine_line: str
    allocator_line: str
    notes: tuple[str, ...] = ()
    unchanged_line: str = ""
    took: Took | None = None

    @property
    def best(self) -> Comparison | None:
        """The fastest row whose verdict is "faster", all of which took effect, and which leaves training as it is."""
        good = [row for row in self.rows if row.verdict == "faster" and row.shown and may_be_recommended(row)]
        return max(good, key=speed, default=None)

    @property
    def summary(self) -> str:
        """What to do, in one sentence for panel, terminal and toast; empty while the trial goes on.

        >>> ladder.summary
        'Keep channels_last: 1.2 to 1.4× faster, loss follows.'
        """
        return summary_of(self.rows, self.best, advice=self.took.advice if self.took is not None else "")

    @property
    def baseline_line(self) -> str:
        """The baseline's step time, and which processes it was measured in."""
        if math.isnan(self.baseline_ms):
            return ""
        where = (
            "as this notebook runs" if any(row.headline for row in self.rows) else "under a steady allocator"
        )
        return f"Baseline: {self.baseline_ms:.3g} ms per step {where}"

    @property
    def last_lines(self) -> list[str]:
        """What stands below the rows: what a reader must know, how long it took, and where."""
        took = str(self.took) if self.took is not None else ""
        lines = (took, *self.notes, self.allocator_line, self.unchanged_line, self.machine_line)
        return [line for line in lines if line]

    def __getitem__(self, plan: str) -> Comparison:
        return next(row for row in self.rows if row.plan == plan)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, each row with its sentence."""
        return {**asdict(self), "rows": [{**asdict(row), "sentence": row.sentence} for row in self.rows]}

    def to_dataframe(self) -> Any:
        """One row a plan: plan, environment, verdict, ratio, low, high, steady_ratio, quality, set-up, when (pandas)."""
        import pandas

        return pandas.DataFrame(self._flat_rows)

    def to_markdown(self) -> str:
        """The rows of `to_dataframe` as a table for an issue or a README, below the summary."""
        return markdown_table(self._flat_rows, above=self.summary, below=self.machine_line)

    def to_csv(self) -> str:
        """The rows of `to_dataframe` for a spreadsheet."""
        return csv_table(self._flat_rows)

    @property
    def _flat_rows(self) -> list[dict[str, Any]]:
        began = self.took.began if self.took is not None else ""
        return [{**_flat(row), "began": began} for row in self.rows]


def _flat(row: Comparison) -> dict[str, Any]:
    shown, steady = row.shown, row.steady
    return {
        "plan": row.plan,
        "environment": row.environment,
        "verdict": row.verdict,
        "ratio": shown.ratio if shown else math.nan,
        "low": shown.low if shown else math.nan,
        "high": shown.high if shown else math.nan,
        "steady_ratio": steady.ratio if steady else math.nan,
        "quality": row.quality.following,
        "baseline_ms": row.baseline_ms,
        "candidate_ms": row.candidate_ms,
        "setup_s": row.setup_s,
        "break_even_steps": row.break_even_steps,
    }
