"""The answer of a search: the plan that training is fastest with, what each part adds, and all that was tried."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from accel.measuring.comparison import CHANGES, Comparison, Interval, PeakOf
from accel.measuring.equal_quality import EqualQuality
from accel.measuring.summary import keep_sentence
from accel.measuring.took import Took
from accel.shown import Drawn
from accel.units import counted, csv_table, markdown_table, size

# Why a plan was not measured.
NO_TIME = "no time was left to measure it: a longer --budget-s takes it in"
STOPPED = "you stopped the search before it was measured"
# A share of memory that is plainly less. Tensors of equal programs hold the same; resident pages differ by a fifth, because
# allocators keep some.
PLAINLY_LESS: dict[PeakOf, float] = {"tensors": 0.95, "resident": 0.75, "": 0.0}


@dataclass(frozen=True)
class AddedPart:
    """One part of the plan: the speed-up `together` with the parts before it, and what it `added` to theirs."""

    part: str
    together: Interval
    added: Interval


@dataclass(frozen=True)
class LeftOut:
    """A plan that the search went on without, and why.

    `is_news` where the search found that out, or where an option would take it in; else `%accel accelerations` says it too.
    """

    plan: str
    why: str
    is_news: bool = False


@dataclass(frozen=True)
class Expectation:
    """What a part was expected to gain, by whom, and what it was measured to gain alone."""

    part: str
    source: str
    expected: Interval
    measured: Interval | None

    @property
    def is_inside(self) -> bool | None:
        """Whether the measured speed-up lies in the expected interval; None where it was not measured."""
        if self.measured is None:
            return None
        return self.expected.low <= self.measured.ratio <= self.expected.high


@dataclass(frozen=True)
class Tuning(Drawn):
    """The best plan for a training cell, with its evidence.

    The search ranks plans by many short measurements. Its winner is then measured again in fresh processes, as the notebook
    runs; only those figures make the answer, so that the luck by which a plan won is not in them.

    Examples:
        >>> tuning = accel.tune(budget_s=120)
        >>> print(tuning)
        >>> tuning.best.plan, tuning.keep_line
    """

    best: Comparison | None
    """The plan to keep; None where none was proven faster."""
    parts: tuple[AddedPart, ...]
    confirmed: tuple[Comparison, ...]
    """The winner and its first parts, measured anew after the search, as the notebook runs."""
    searched: tuple[Comparison, ...]
    """Every plan that the search measured, under a steady allocator, fastest first."""
    left_out: tuple[LeftOut, ...]
    expectations: tuple[Expectation, ...]
    """Where the search began: what findings predicted and the history of this machine holds, next to what was measured."""
    baseline_ms: float
    steps: int
    """Optimizer steps of the training, over which compiling has to pay off."""
    machine_line: str
    allocator_line: str
    took: Took | None = None
    is_over: bool = True
    how_to_run: str = ""
    """The line that runs the best plan, where that is not `%accel keep`: one that trains on several processes."""
    notes: tuple[str, ...] = ()
    unchanged_line: str = ""
    quality: EqualQuality | None = None
    """How soon a plan that changes training is as good as the cell as it is: the best one that is proven, else the fastest; None
    where none was to be proven."""
    fit_bytes: int | None = None
    """The memory that a plan may take at its peak; None where that was not asked."""
    keep_quality: float | None = None
    """The share by which losses may be higher on average; None: they have to follow those of the cell as it is."""
    against: str = ""
    """The plan that all were compared with, where the cell as it is runs out of memory; empty: the cell as it is."""

    @property
    def answer(self) -> str:
        """What was found, in one sentence."""
        if self.best is not None:
            follows = self._speaks_for(self.best) or str(self.best.quality)
            fits = f" {self._fits(self.best)}" if self.fit_bytes is not None else ""
            if self.best.plan == self.against:
                return f"{self.best.plan}{fits}; nothing that fits is faster."
            return f"{self.best.plan}{fits}: {self.best.sentence}; {follows}."
        if not self.is_over:
            return "Searching …"
        if self.fit_bytes is not None and (said := self._without_a_fit(self.fit_bytes)):
            return said
        measured = [row for row in self.confirmed if row.headline is not None]
        if faster := [row for row in measured if row.verdict == "faster"]:
            compared = self.quality.plan if self.quality is not None else ""
            row = next((row for row in faster if row.plan == compared), faster[-1])
            return f"{row.plan} is faster ({row.headline}), but not to be recommended: {self._why(row.plan)}"
        ahead = self.ahead
        if any(row.verdict == "undecided" for row in measured):
            best = f"{ahead.plan} looked best ({ahead.headline})" if ahead is not None else "what looked best"
            return f"Undecided: {best}, which does not prove it faster than the cell as it is."
        if ahead is not None and ahead.verdict == "faster" and not measured:
            return f"Not confirmed: {ahead.plan} was ahead in the search ({ahead.steady}), and was not measured anew."
        if not self.searched and not measured:
            return "Nothing was measured."
        fits = f", which fits {size(self.fit_bytes)}" if self.fit_bytes is not None else ""
        plans = counted(len(self.searched), "plan")
        if left := sum(each.why in (NO_TIME, STOPPED) for each in self.left_out):
            return f"None of {plans} is faster than the cell as it is{fits}; {left} more were not measured."
        return f"Nothing here is faster than the cell as it is{fits}; {plans} measured."

    @property
    def summary(self) -> str:
        """What to do, in one sentence for panel, terminal and toast; empty while the search goes on."""
        if not self.is_over:
            return ""
        best = self.best
        if best is None or best.verdict != "faster" or self.fit_bytes is not None:
            return self.answer
        return keep_sentence(best, about=self._speaks_for(best))

    @property
    def ahead(self) -> Comparison | None:
        """The plan that is the fastest so far, of those that may be the answer."""
        rows = [row for row in self.confirmed if row.headline is not None] or self.searched
        good = [row for row in rows if row.shown is not None and not self._why(row.plan)]
        return max(good, key=_lead, default=None)

    def _speaks_for(self, row: Comparison) -> str:
        """What speaks for a plan whose losses do not follow: the quality reached, or what was allowed; empty for others."""
        if self.quality is not None and self.quality.plan == row.plan:
            return self.quality.sentence
        is_allowed = self.keep_quality is not None and row.quality.following == "drifts"
        return row.quality.allowed(self.keep_quality or 0.0) if is_allowed else ""

    def _fits(self, row: Comparison) -> str:
        assert self.fit_bytes is not None
        peaks = row.peak_bytes or (0, 0)
        of = " of resident pages" if row.peak_of == "resident" else ""
        return f"fits {size(self.fit_bytes)} ({size(peaks[1])}{of} at its peak, {self._cell_takes(peaks[0])})"

    def _cell_takes(self, peak: int) -> str:
        return (
            f"the cell as it is {'ran out of memory next to this notebook' if self.against else size(peak)}"
        )

    def _without_a_fit(self, most: int) -> str:
        """What is known where no plan is recommended that fits; empty where the usual words say it."""
        known = [row for row in self.rows if row.peak_bytes is not None and not self._why(row.plan)]
        if not known:
            return ""
        least = min(known, key=lambda row: (row.peak_bytes[1] if row.peak_bytes else math.inf, len(row.plan)))
        base, own = least.peak_bytes or (0, 0)
        if base <= most:
            return ""
        if own > most:
            took = f"{size(own)} at its peak, {self._cell_takes(base)}"
            return f"Nothing here fits {size(most)}; least: {least.plan} ({took})."
        return f"Not confirmed: {least.plan} {self._fits(least)} in the search, and was not measured anew."

    def _why(self, plan: str) -> str:
        """Why a plan was left out; empty where it was not."""
        return next((each.why for each in self.left_out if each.plan == plan), "")

    def may_be_kept(self, row: Comparison) -> bool:
        """Whether a row is a plan to recommend: measured anew, proven faster or needed to fit, and not left out."""
        is_proven = row in self.confirmed and is_wanted(row, self.fit_bytes)
        return self.is_over and is_proven and not self._why(row.plan)

    @property
    def keep_line(self) -> str:
        """What to type to have the plan in the notebook; empty where there is none."""
        if self.best is None:
            return ""
        return self.how_to_run or f"%accel keep {self.best.plan}"

    @property
    def export_line(self) -> str:
        """What to type, once the plan is kept, to get it as plain PyTorch."""
        return "%accel export" if self.best is not None and not self.how_to_run else ""

    @property
    def rows(self) -> tuple[Comparison, ...]:
        """All plans measured: those of the answer first; each once."""
        known = {row.plan for row in self.confirmed}
        return (*self.confirmed, *(row for row in self.searched if row.plan not in known))

    @property
    def front(self) -> tuple[Comparison, ...]:
        """Plans that no other beats in both speed and memory, fastest first, of those that were not left out."""
        good = [row for row in self.rows if not self._why(row.plan) and self._is_as_good(row)]
        return pareto_front(good)

    def _is_as_good(self, row: Comparison) -> bool:
        """Whether a plan leaves training as it is, or was proven to be worth the change."""
        return row.effect != CHANGES or (self.best is not None and self.best.plan == row.plan)

    def __getitem__(self, plan: str) -> Comparison:
        return next(row for row in self.rows if row.plan == plan)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, with the answer and the plans of the front."""
        return {
            **asdict(self),
            "answer": self.answer,
            "keep": self.keep_line,
            "front": [row.plan for row in self.front],
        }

    def to_dataframe(self) -> Any:
        """One row a measured plan: plan, stage, verdict, ratio, low, high, quality, peak bytes and of what (pandas)."""
        import pandas

        return pandas.DataFrame(self._flat_rows, columns=_COLUMNS)

    def to_markdown(self) -> str:
        """The rows of `to_dataframe` as a table for an issue or a README, below the summary."""
        return markdown_table(self._flat_rows, above=self.summary, below=self.machine_line)

    def to_csv(self) -> str:
        """The rows of `to_dataframe` for a spreadsheet."""
        return csv_table(self._flat_rows)

    @property
    def _flat_rows(self) -> list[dict[str, Any]]:
        stages = [("confirmed", self.confirmed), ("searched", self.searched)]
        return [_flat(stage, row) for stage, rows in stages for row in rows]


def _lead(row: Comparison) -> tuple[bool, float]:
    return row.verdict == "faster", row.shown.carried if row.shown else 0.0


def pareto_front(rows: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """The fastest that is faster than the cell as it is, then each that needs plainly less memory than those before it.

    Without a known memory, the fastest alone.
    """
    front: list[Comparison] = []
    for row in sorted((row for row in rows if row.shown is not None), key=_ratio, reverse=True):
        smallest = min([1.0, *(memory_share(each) for each in front)])
        if (not front and row.verdict == "faster") or memory_share(row) < smallest * PLAINLY_LESS[
            row.peak_of
        ]:
            front.append(row)
    return tuple(front)


def is_needed(row: Comparison, fit_bytes: int | None) -> bool:
    """Whether the cell as it is takes more memory than it may, so that a plan that fits is worth having however fast it is."""
    return fit_bytes is not None and row.peak_bytes is not None and row.peak_bytes[0] > fit_bytes


def is_wanted(row: Comparison, fit_bytes: int | None) -> bool:
    """Whether a plan that was measured anew may be the answer: proven faster, or needed to fit."""
    if row.headline is None or row.state == "failed":
        return False
    return row.verdict == "faster" or is_needed(row, fit_bytes)


def why_not_fitting(row: Comparison, fit_bytes: int | None) -> str:
    """Why a plan does not fit; empty where it does, or where that was not asked."""
    if fit_bytes is None:
        return ""
    if row.peak_bytes is None:
        return "how much memory it takes was not seen"
    own = row.peak_bytes[1]
    return f"it takes {size(own)} at its peak, more than {size(fit_bytes)}" if own > fit_bytes else ""


def memory_share(row: Comparison) -> float:
    """Peak memory with the plan over that without; NaN where it is not known."""
    if not row.peak_bytes:
        return math.nan
    return row.peak_bytes[1] / row.peak_bytes[0]


def _ratio(row: Comparison) -> float:
    return row.shown.ratio if row.shown else math.nan


_COLUMNS = [
    "plan",
    "stage",
    "verdict",
    "ratio",
    "low",
    "high",
    "quality",
    "baseline_bytes",
    "peak_bytes",
    "peak_of",
    "step_ms",
]


def _flat(stage: str, row: Comparison) -> dict[str, Any]:
    shown, peaks = row.shown, row.peak_bytes or (math.nan, math.nan)
    return {
        "plan": row.plan,
        "stage": stage,
        "verdict": row.verdict,
        "ratio": shown.ratio if shown else math.nan,
        "low": shown.low if shown else math.nan,
        "high": shown.high if shown else math.nan,
        "quality": row.quality.following,
        "baseline_bytes": peaks[0],
        "peak_bytes": peaks[1],
        "peak_of": row.peak_of,
        "step_ms": row.candidate_ms,
    }
