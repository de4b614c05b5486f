"""Checks of plans: a ladder of the student's own training, and what a gain in parts is worth in the whole."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from accel.labs.exercises.seen import Seen, function_of, is_near, measured, outcome, wrong_work
from accel.measuring.ladder import Ladder, speed

if TYPE_CHECKING:
    from accel.measuring.comparison import Comparison

BUDGET_S = 15.0
FOLLOWS = ("same", "follows")


def faster_plan(ladder: object, *, at_least: float) -> Seen:
    """Whether a plan of the ladder is at least so many times as fast as the baseline, and its loss follows.

    >>> faster_plan(accel.try_("channels_last", budget_s=15), at_least=1.3).passed
    True
    """
    asked = f"A plan at least {at_least:g} times as fast as the baseline, whose loss follows."
    if not isinstance(ladder, Ladder):
        raise wrong_work(
            "a ladder", f"this is of type {type(ladder).__name__}", "Pass what accel.try_(…) gives."
        )
    good = [
        row
        for row in ladder.rows
        if row.verdict == "faster" and row.shown and row.quality.following in FOLLOWS
    ]
    best = max(good, key=speed, default=None)
    if best is None or best.shown is None:
        fast = [row for row in ladder.rows if row.verdict == "faster" and row.shown]
        if fast:
            saw = f"{fast[0].plan} is {fast[0].shown.ratio:.2f} times as fast, and its loss is another one."  # type: ignore[union-attr]
            return Seen(
                False,
                saw,
                asked,
                {},
                "A plan that trains another model is no gain: look for one whose loss follows.",
            )
        return Seen(False, "No plan of this ladder is faster than the baseline.", asked)
    passed, ratio, times = measured(lambda: _again(best), at_least=at_least, first=best.shown.ratio)
    saw = f"{best.plan} is {ratio:.2f} times as fast, and its loss follows."
    return Seen(passed, saw, asked, {"plan": best.plan, "ratio": ratio, "measured": float(times)})


def _again(row: Comparison) -> float:
    """One more trial of that plan on what was profiled last."""
    from accel.current import current_workbench

    ladder = current_workbench().try_(row.plan, budget_s=BUDGET_S)
    assert isinstance(ladder, Ladder)
    shown = ladder.rows[0].shown
    return shown.ratio if shown is not None else 0.0


def speed_up_of_parts(function: object) -> Seen:
    """Whether function(times, factors) gives how many times as fast a whole is when each part becomes so many times as fast.

    >>> speed_up_of_parts(lambda times, factors: sum(factors) / len(factors)).passed
    False
    """
    work = function_of(function)
    asked = "The old time of the whole over its new time, for any parts (Amdahl's law)."
    draw = random.Random(0)
    cases = [([10.0, 24.0, 6.0], [1.0, 2.0, 1.5]), ([4.0, 6.0], [2.0, 1.0]), ([1.0], [3.0])]
    cases += [
        ([draw.uniform(0.1, 9) for _ in range(4)], [draw.uniform(0.5, 8) for _ in range(4)])
        for _ in range(20)
    ]
    for times, factors in cases:
        right = sum(times) / sum(time / factor for time, factor in zip(times, factors, strict=True))
        given = outcome(work, list(times), list(factors))
        if not is_near(given, right):
            parts = ", ".join(
                f"{time:.3g} s {factor:.3g} times as fast"
                for time, factor in zip(times, factors, strict=True)
            )
            hint = (
                "A factor holds for its own part. Compute what each part takes afterwards, and add that up."
            )
            return Seen(False, f"For parts of {parts} your function gives {given}.", asked, {}, hint)
    return Seen(True, f"Right for {len(cases)} jobs.", asked, {"jobs": float(len(cases))})
