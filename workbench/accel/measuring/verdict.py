"""When is a trial decided, and how: faster, slower, no difference, or undecided.

Looking after every relaunch and stopping at the first "significant" look would raise false alarms, so an early look must
clear a stricter interval; "no difference" needs the whole 95 % interval within the tolerance, and wins over a difference
that small. A single relaunch never decides on a small difference: about one process in fifty is 7 % slower than its twins
for all its life (two of a hundred A/A trials, each called "slower" after one relaunch, before this was asked for).
"""

from __future__ import annotations

import math

from accel.measuring.comparison import Interval, Verdict

TOLERANCE = 0.03  # a smaller speed-up than this is no reason to change a training cell
PLAIN_AT_ONCE = 0.15  # a difference that no twin process ever showed
_EARLY_CONFIDENCE = {1: 0.998, 2: 0.99, 3: 0.98}


def confidence_to_stop(relaunches: int) -> float:
    """Confidence that a difference must reach for the trial to stop after so many relaunches.

    >>> confidence_to_stop(1), confidence_to_stop(3)
    (0.998, 0.98)
    """
    return _EARLY_CONFIDENCE.get(relaunches, 0.95)


def is_no_difference(shown: Interval, tolerance: float = TOLERANCE) -> bool:
    """Does the whole interval lie within the tolerance?"""
    return 1 - tolerance < shown.low and shown.high < 1 + tolerance


def direction(interval: Interval) -> Verdict:
    """Faster or slower when the interval excludes 1, else undecided."""
    if interval.low > 1:
        return "faster"
    return "slower" if interval.high < 1 else "undecided"


def decide(shown: Interval, strict: Interval, *, is_last: bool) -> Verdict | None:
    """The verdict after a relaunch, or None to go on; `shown` is the 95 % interval, `strict` the one for this look.

    >>> decide(Interval(1.9, 1.8, 2.0, 1, 40), Interval(1.9, 1.7, 2.1, 1, 40), is_last=False)
    'faster'
    """
    if is_no_difference(shown):
        return "no difference"
    early = direction(strict)
    may_be_one_odd_process = shown.relaunches == 1 and abs(math.log(shown.ratio)) < PLAIN_AT_ONCE
    if early != "undecided" and (is_last or not may_be_one_odd_process):
        return early
    return direction(shown) if is_last else None
