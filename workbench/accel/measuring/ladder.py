"""The answer of a whole trial: one row a plan against the baseline, best first, with what it was measured on."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from accel import html_parts as html
from accel.measuring.comparison import Comparison, Interval
from accel.measuring.took import Took

_SYMBOL = {"faster": "▲", "slower": "▼", "no difference": "=", "undecided": "?"}


@dataclass(frozen=True)
class Ladder:
    """Trial results; prints as a table, shows as HTML in a notebook.

    >>> print(accel.try_("channels_last", "autocast"))
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
        """The fastest row whose verdict is "faster" and whose loss does not drift, as far as losses can be compared."""
        bad = ("drifts", "other batches")
        good = [
            row
            for row in self.rows
            if row.verdict == "faster" and row.shown and row.quality.following not in bad
        ]
        return max(good, key=speed, default=None)

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

    def __str__(self) -> str:
        width = max([len(row.plan) for row in self.rows] + [8])
        lines = [self.baseline_line]
        for row in self.rows:
            lines.append(f"{symbol(row)} {row.plan:<{width}}  {row.sentence}")
            lines += [f"    {text}" for text in explanations(row)]
        return "\n".join(line for line in (*lines, *self.last_lines) if line)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "rows": [{**asdict(row), "sentence": row.sentence} for row in self.rows]}

    def to_dataframe(self) -> Any:
        """One row a plan: plan, verdict, ratio, low, high, steady_ratio, quality, set-up (pandas)."""
        import pandas

        return pandas.DataFrame([_flat(row) for row in self.rows])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._html()}

    def _html(self) -> str:
        fastest = max([speed(row) for row in self.rows if not math.isnan(speed(row))] + [1.0])
        rows = [
            (
                f"{symbol(row)} {row.plan}",
                ""
                if math.isnan(speed(row))
                else html.bar(
                    speed(row) / fastest, colour="#16a34a" if row.verdict == "faster" else "#6b7280"
                ),
                row.sentence,
                html.Markup("<br>".join(html.text(text) for text in explanations(row))),
            )
            for row in self.rows
        ]
        notes = [html.note(line) for line in self.last_lines]
        top = html.heading(self.baseline_line)
        return html.block(top, html.table(["plan", "speed-up", "verdict", "how it was found"], rows), *notes)


def symbol(row: Comparison) -> str:
    """One mark for the verdict; the words beside it say the same."""
    if row.state in ("failed", "not applicable"):
        return "✗"
    return _SYMBOL[
        row.verdict if row.state == "done" or (row.state == "stopped" and row.shown) else "undecided"
    ]


def speed(row: Comparison) -> float:
    """The speed-up that a row is sorted and drawn by: what its interval carries."""
    return row.shown.carried if row.shown else math.nan


def explanations(row: Comparison) -> list[str]:
    """The small print of a row: samples, quality, proofs, notes. `steady`, where it decided nothing, is in `to_dict` only."""
    lines = []
    if row.samples_per_step:
        base, own = row.samples_per_step
        lines.append(
            f"per sample: a step of {base:,} samples took {row.baseline_ms:.3g} ms, one of {own:,} {row.candidate_ms:.3g} ms"
        )
    if row.headline:
        lines.append(f"{_samples(row.headline)} as this notebook runs")
    elif row.shown:
        lines.append(f"{_samples(row.shown)} with a steady allocator on both sides")
    if row.state == "done":
        lines.append(f"{row.effect}: {row.quality}")
    lines += [
        f"{'took effect' if took else 'DID NOT TAKE EFFECT'}: {name} — {evidence}"
        for name, took, evidence in row.proofs
    ]
    return lines + list(row.notes)


def _samples(interval: Interval) -> str:
    return f"{interval.pairs} pairs of step blocks over {interval.relaunches} relaunch{'es' if interval.relaunches > 1 else ''}"


def _flat(row: Comparison) -> dict[str, Any]:
    shown, steady = row.shown, row.steady
    return {
        "plan": row.plan,
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
