"""The answer of a trial by quality: seconds of training and quality side by side, for the baseline and each plan."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from accel.measuring.quality_target import QualityTarget
from accel.measuring.quality_verdict import QualityAnswer, better_or_worse, missed, sooner_or_later
from accel.measuring.took import Took
from accel.measuring.training_curve import ENDINGS, QualityRow, TrainingCurve
from accel.shown import Drawn
from accel.units import counted, csv_table, markdown_table


@dataclass(frozen=True)
class TimeToQuality(Drawn):
    """Rows of a trial with `until` or `train_s`, the baseline first; prints as a table, shows as HTML in a notebook.

    >>> print(accel.try_("batch_size", until="accuracy>=0.95", seeds=3))
    >>> result.figure()          # quality over seconds of training

    Seconds are those of training steps alone, compiling included, evaluating not.
    """

    rows: tuple[QualityRow, ...]
    metric: str  # "accuracy"
    metric_line: str  # how and on what it is measured
    is_higher_better: bool
    target: QualityTarget | None
    train_s: float | None
    machine_line: str
    epoch_samples: int | None = None
    notes: tuple[str, ...] = ()
    unchanged_line: str = ""
    took: Took | None = None

    @property
    def baseline(self) -> QualityRow:
        """The cell as it is."""
        return self.rows[0]

    def __getitem__(self, plan: str) -> QualityRow:
        return next(row for row in self.rows if row.plan == plan)

    @property
    def best(self) -> QualityRow | None:
        """The row that was soonest as good, or best after equal seconds, of those whose verdict says so and that took effect."""
        answers = [
            (row, self.answer(row.plan)) for row in self.rows if all(took for _, took, _ in row.proofs)
        ]
        good = [(row, answer) for row, answer in answers if answer.verdict in ("sooner", "better")]
        return max(good, key=lambda pair: self._gain(*pair), default=(None, None))[0]

    @property
    def summary(self) -> str:
        """What to do, in one sentence for panel, terminal and toast; empty while the trial goes on."""
        if any(row.state in ("waiting", "training") for row in self.rows):
            return ""
        if self.best is not None:
            return f"Keep {self.best.title}: {self.answer(self.best.plan).sentence}."
        tried = self.rows[1:]
        what = "sooner as good" if self.target is not None else "better after equal seconds"
        if len(tried) == 1:
            found = self.answer(tried[0].plan).sentence.rstrip(".")
            return f"{tried[0].title} is not proven {what}: {found}."
        return f"None of {counted(len(tried), 'plan')} is proven {what}: keep your cell as it is."

    def _gain(self, row: QualityRow, answer: QualityAnswer) -> float:
        """The higher the sooner, or the better after equal seconds."""
        if self.target is not None:
            return -(row.seconds(self.target) or math.inf)
        return abs(answer.difference.mean) if answer.difference else 0.0

    def answer(self, plan: str) -> QualityAnswer:
        """The verdict on one plan, with the ratio of seconds or the difference of quality that it rests on."""
        row = self[plan]
        if row.state in ("failed", "not applicable"):
            return QualityAnswer("undecided", f"{row.state}: {row.error}")
        if not row.curves:
            return QualityAnswer(
                "undecided", "waiting" if row.state in ("waiting", "training") else "not trained"
            )
        if row is self.baseline:
            return QualityAnswer("undecided", self._baseline_sentence(row))
        if self.target is not None:
            return sooner_or_later(row, self.baseline, self.target)
        return better_or_worse(row, self.baseline, metric=self.metric, is_higher_better=self.is_higher_better)

    def _baseline_sentence(self, row: QualityRow) -> str:
        if self.target is not None and not row.ends(self.target):
            return f"the baseline: {missed(row, self.target)}"
        return "the baseline"

    @property
    def headline(self) -> str:
        """What was asked, in one line."""
        if self.target is not None:
            return f"Seconds of training until {self.target}"
        return f"{self.metric[:1].upper()}{self.metric[1:]} after {self.train_s:.3g} s of training"

    @property
    def fine_print(self) -> tuple[str, ...]:
        """How the metric was measured, how fine the times are, and what else a reader must know."""
        lines = [self.metric_line]
        stretch = max((c.seconds_between_evaluations for row in self.rows for c in row.curves), default=0.0)
        if stretch and self.target is not None:
            lines.append(
                "A time is read in proportion between the last evaluation that missed the target and the first that met it, up "
                f"to {stretch:.2g} s of training apart; intervals have room for a quarter of that on each side."
            )
        lines += [str(self.took or ""), *self.notes, self.unchanged_line, self.machine_line]
        return tuple(line for line in lines if line)

    def details(self, row: QualityRow) -> list[str]:
        """The small print of a row: what its first step cost, each seed, and whether the plan took effect."""
        lines = (
            []
            if row.effect != "changes training"
            else ["changes training: compare quality, not only seconds"]
        )
        if row.is_noteworthy_start:
            lines.append(f"its first step took {row.first_step_s:.3g} s of these (compiling, starting up)")
        if len(row.curves) > 1:
            lines += [self._seed_line(curve) for curve in row.curves]
        return lines + [
            f"{'took effect' if took else 'DID NOT TAKE EFFECT'}: {name} — {evidence}"
            for name, took, evidence in row.proofs
        ]

    def _seed_line(self, curve: TrainingCurve) -> str:
        met = curve.crossed(self.target) if self.target is not None else None
        if met is not None:
            found = (
                f"{self.metric} {shown_value(curve.last, '.4g')} when evaluated, at {curve.trained_s:.3g} s"
            )
            return f"seed {curve.seed}: {met.seconds:.3g} s, {met.steps:,.0f} steps ({found})"
        value = shown_value(curve.last, ".4g")
        return (
            f"seed {curve.seed}: {ENDINGS[curve.ending]}; {self.metric} {value} after {curve.seconds:.3g} s"
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything, with the curves, as plain values."""
        answers = {row.plan: asdict(self.answer(row.plan)) for row in self.rows}
        rows = [{**asdict(row), "answer": answers[row.plan]} for row in self.rows]
        for row, own in zip(rows, self.rows, strict=True):
            row["curves"] = [
                {**asdict(curve), "points": [point._asdict() for point in curve.points]}
                for curve in own.curves
            ]
        return {**asdict(self), "target": str(self.target) if self.target else None, "rows": rows}

    def to_dataframe(self) -> Any:
        """One row a plan and seed: seconds, steps, epochs, samples_per_s, quality, ending (pandas)."""
        import pandas

        return pandas.DataFrame(self._rows())

    def to_markdown(self) -> str:
        """The rows of `to_dataframe` as a table for an issue or a README, below the summary."""
        return markdown_table(self._rows(), above=self.summary, below=self.machine_line)

    def to_csv(self) -> str:
        """The rows of `to_dataframe` for a spreadsheet."""
        return csv_table(self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        return [self._flat(row, curve) for row in self.rows for curve in row.curves]

    def _flat(self, row: QualityRow, curve: TrainingCurve) -> dict[str, Any]:
        end = next(
            ((seconds, steps) for each, seconds, steps in row.ends(self.target) if each is curve), None
        )
        seconds, steps = end or (math.nan, curve.steps)
        samples = curve.samples * steps / curve.steps if curve.samples and curve.steps else math.nan
        return {
            "plan": row.plan, "seed": curve.seed, "seconds": seconds, "steps": steps,
            "epochs": samples / self.epoch_samples if self.epoch_samples else math.nan,
            "samples_per_s": curve.samples_per_s, "quality": curve.last, "first_step_s": curve.first_step_s,
            "is_reached": self.target is not None and end is not None, "ending": curve.ending,
        }  # fmt: skip


def shown_value(value: float | None, form: str) -> str:
    """A number in a format, a dash for none."""
    return "–" if value is None else f"{value:{form}}"
