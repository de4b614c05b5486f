"""After how many steps a plan has earned back what it costs before it helps: compiling, above all."""

from __future__ import annotations

import math
from dataclasses import dataclass

from accel.measuring.comparison import Interval, Verdict


@dataclass(frozen=True)
class BreakEven:
    """From which step on a run with the plan is ahead of one without it.

    >>> print(break_even(12.0, 40.0, Interval(1.3, 1.25, 1.36, 4, 120), "faster"))
    pays off after 1,300 steps [1,130, 1,500] (12 s of set-up)

    `setup_s` is the time that the first steps took beyond the baseline's and beyond what they take later. The steps are
    None where the plan never gets ahead, or where that is not known; `low` and `high` are for the ends of the interval.
    """

    setup_s: float
    steps: int | None
    low: int | None
    high: int | None
    verdict: Verdict

    def sentence(self, what: str = "of set-up") -> str:
        """The answer in one line; `what` says what the seconds went into."""
        cost = f"({_seconds(self.setup_s)} {what})"
        if self.steps is not None:
            until = f"{self.high:,}" if self.high is not None else "never"
            return f"pays off after {self.steps:,} steps [{self.low:,}, {until}] {cost}"
        never = {
            "slower": "never pays off: it is slower",
            "no difference": "never pays off: no difference found",
        }
        return f"{never.get(self.verdict, 'not known yet when it pays off')} {cost}"

    def __str__(self) -> str:
        return self.sentence()


def break_even(setup_s: float, baseline_ms: float, shown: Interval | None, verdict: Verdict) -> BreakEven:
    """When a plan is ahead: its set-up divided by what each step saves, and the same for both ends of the interval.

    >>> break_even(12.0, 40.0, Interval(2.0, 1.5, 2.5, 4, 120), "faster").steps
    600
    """
    if shown is None or verdict != "faster":
        return BreakEven(setup_s, None, None, None, verdict)
    steps, low, high = (_steps(setup_s, baseline_ms, ratio) for ratio in (shown.ratio, shown.high, shown.low))
    return BreakEven(setup_s, steps, low, high, verdict)


def setup_seconds(warm_up_s: float, base_warm_up_s: float, *, steps: int, saved_s: float) -> float:
    """What the warm-up of a plan took beyond the baseline's, both of so many steps; never below zero.

    A step of the plan takes `saved_s` less than one of the baseline: so much less the warm-up would have taken by itself.

    >>> setup_seconds(12.5, 1.0, steps=5, saved_s=0.1)
    12.0
    """
    return max(warm_up_s - base_warm_up_s + steps * saved_s, 0.0)


def _steps(setup_s: float, baseline_ms: float, ratio: float) -> int | None:
    """Steps until the time saved is as long as the set-up; None when a step saves nothing."""
    saved_s = baseline_ms / 1000 * (1 - 1 / ratio)
    return math.ceil(_three_digits(setup_s / saved_s)) if saved_s > 0 else None


def _three_digits(value: float) -> float:
    """More digits than three would claim what was not measured."""
    return float(f"{value:.3g}")


def _seconds(value: float) -> str:
    return f"{value:.2g} s" if value < 10 else f"{value:,.0f} s"
