"""How long a measurement took, from the command on, and what ended it; what more time would give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from accel.measuring.comparison import Comparison, Interval
from accel.measuring.verdict import TOLERANCE

LEFT_OVER_S = 2.0  # less is no time
TOO_LONG_S = 3600.0  # longer than a difference that small is worth
_NICE_S = (15, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 960, 1800, 3600)


@dataclass(frozen=True)
class Took:
    """Wall time from the command on, what it went to, and what ended it.

    >>> print(Took(38.2, 40.0, (("starting workers", 12.1), ("measuring", 26.0)), "the time was up"))
    Took 38 s of 40 s (starting workers 12 s, measuring 26 s); the time was up.
    """

    seconds: float
    budget_s: float | None  # None: none was asked for
    phases: tuple[tuple[str, float], ...]
    ended_by: str
    advice: str = ""  # what would decide that which is open
    began: str = ""  # ISO, local time with its offset

    def __str__(self) -> str:
        given = f" of {self.budget_s:g} s" if self.budget_s is not None else ""
        parts = ", ".join(f"{phase} {seconds:.0f} s" for phase, seconds in self.phases if seconds >= 0.5)
        line = f"Took {self.seconds:.0f} s{given}{f' ({parts})' if parts else ''}; {self.ended_by}."
        return f"{line} {self.advice}" if self.advice else line


def seconds_to_decide(shown: Interval, relaunch_s: float) -> float:
    """How long relaunches would have to go on until the interval excludes 1, or lies within what counts as no difference.

    >>> seconds_to_decide(Interval(1.1, 0.95, 1.27, 2, 40), relaunch_s=10)
    46.3...

    An interval's half-width falls with the root of the number of relaunches.
    """
    centre, half = abs(math.log(shown.ratio)), math.log(shown.high / shown.low) / 2
    enough = max(centre, math.log(1 + TOLERANCE) - centre)
    return shown.relaunches * max(half / enough, 1.0) ** 2 * relaunch_s


BEYOND_TIME = ("heap", "starting", "first epoch")  # reasons that a longer trial does not remove by itself


def advice_for(
    rows: Sequence[Comparison],
    *,
    spent_s: float,
    relaunch_s: float,
    least_s: float,
    budget_s: float = 0.0,
    command: str = "",
) -> str:
    """The line to type that would decide the rows that are undecided; empty where none is.

    `command` is what it begins with, else a trial of these rows; `spent_s` is what it took so far, `relaunch_s` what a relaunch
    takes, `least_s` what one answer takes at least. The time it names is longer than `budget_s`, which was not enough.
    """
    undecided = [
        row for row in rows if row.state in ("done", "measuring", "confirming") and row.verdict == "undecided"
    ]
    if not undecided:
        return ""
    open_to_time = [row for row in undecided if row.time_decides or row.open_because not in BEYOND_TIME]
    if not open_to_time:
        return _beyond_time(undecided)
    undecided = open_to_time
    command = command or " ".join(["%accel try", *(row.plan for row in undecided)])
    shown = [row.steady if row.open_because == "heap" and row.steady else row.shown for row in undecided]
    more_s, may = 1.01 * budget_s, "may" if any(row.open_because for row in undecided) else "is likely to"
    if None in shown:
        return f"{command} --budget-s {nice(max(least_s, 2 * spent_s, more_s))} is likely to give an answer."
    needed = 1.2 * max(seconds_to_decide(each, relaunch_s) for each in shown if each is not None)
    if needed > TOO_LONG_S and any(each.is_wide for each in shown if each is not None):
        return "More time is not likely to give a verdict: the times vary too much. Close other programs and run the trial again."
    if needed > TOO_LONG_S:
        return "More time is not likely to give a verdict: the difference is too small."
    what = "this plan" if len(undecided) == 1 else "the undecided plans"
    return f"{command} --budget-s {nice(max(needed, 1.5 * spent_s, more_s))} {may} decide {what}."


def _beyond_time(undecided: Sequence[Comparison]) -> str:
    """What to do about rows that more time does not decide."""
    here = [row.plan for row in undecided if row.may_be_slower_here and not row.has_own_allocator]
    if here:
        plans = " ".join(f"{plan}+steady_allocator" for plan in here)
        why = (
            "A longer trial cannot show how this notebook's memory allocator affects the plan; with steady_allocator, the "
            "notebook's no longer matters"
        )
        return f"{why}: %accel try {plans}."
    if any(row.may_be_slower_here for row in undecided):
        return (
            "A longer trial cannot show how this notebook's memory allocator affects the plan. Profile the cell, keep the plan, "
            "profile again, and compare the step times."
        )
    if any(row.open_because == "first epoch" for row in undecided):
        return (
            "This trial cannot run enough steps after the first epoch. Keep the plan, and compare the time of a later epoch with "
            "and without it."
        )
    return (
        "A longer trial cannot show what it costs to start workers in each epoch. Try the plan with persistent=True, so that "
        "workers start only once."
    )


def out_of_time(left_s: float = 0.0, least_s: float = 0.0) -> str:
    """What ended a measurement that another relaunch would have made surer.

    >>> out_of_time(0.4, 12.0), out_of_time(11.0, 14.2)
    ('the time was up', 'another relaunch takes at least 14 s, and only 11 s were left')
    """
    if left_s < LEFT_OVER_S:
        return "the time was up"
    return f"another relaunch takes at least {least_s:.0f} s, and only {left_s:.0f} s were left"


def nice(seconds: float) -> int:
    """The next round number of seconds.

    >>> nice(46.3)
    60
    """
    return next((each for each in _NICE_S if each >= seconds), math.ceil(seconds / 1800) * 1800)
