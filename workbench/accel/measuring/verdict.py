"""When is a trial decided, and how: faster, slower, no difference, or undecided.

Looking after every relaunch and stopping at the first "significant" look would raise false alarms, so an early look must
clear a stricter interval, and later ones are few, for the same reason: with a look after each of 60 relaunches at 95 %, 27
of 100 A/A trials under glibc's allocator were called different. As it is now, about 5 of 100 with up to five relaunches are,
for processes that differ by 1 to 10 % (`tests/measuring/test_process_spread.py`). "No difference" needs the whole shown
interval within the tolerance, and wins over a difference that small. A single relaunch never decides on a small difference:
about one process in fifty is 7 % slower than its twins for all its life (two of a hundred A/A trials, each called "slower"
after one relaunch, before this was asked for).
"""

from __future__ import annotations

import math

from accel.measuring.comparison import Interval, Verdict

TOLERANCE = 0.03  # a smaller speed-up than this is no reason to change a training cell
PLAIN_AT_ONCE = 0.15  # a difference that no twin process ever showed
FEW_RELAUNCHES = 5  # up to here a trial ends by itself; beyond, it goes on for as long as its budget lasts
_EARLY_CONFIDENCE = {1: 0.998, 2: 0.998, 3: 0.995, 4: 0.995}
_LATER_CONFIDENCE = 0.99
_LATER_LOOKS = (8, 12, 18, 27, 40, 60)


def confidence_shown(relaunches: int) -> float:
    """Confidence of the interval that a user reads: what holds at 95 % over all looks needs more at each."""
    return 0.96 if relaunches <= FEW_RELAUNCHES else _LATER_CONFIDENCE


def confidence_to_stop(relaunches: int) -> float:
    """Confidence that a difference must reach for the trial to stop after so many relaunches.

    >>> confidence_to_stop(1), confidence_to_stop(3), confidence_to_stop(12)
    (0.998, 0.995, 0.99)
    """
    return _EARLY_CONFIDENCE.get(relaunches, _LATER_CONFIDENCE)


def is_look(relaunches: int) -> bool:
    """Whether a difference may end the trial after so many relaunches.

    >>> [number for number in range(1, 20) if is_look(number)]
    [1, 2, 3, 4, 5, 8, 12, 18]
    """
    return relaunches <= FEW_RELAUNCHES or relaunches in _LATER_LOOKS


def is_no_difference(shown: Interval, tolerance: float = TOLERANCE) -> bool:
    """Does the whole interval lie within the tolerance?"""
    return 1 - tolerance < shown.low and shown.high < 1 + tolerance


def direction(interval: Interval) -> Verdict:
    """Faster or slower when the interval excludes 1, else undecided."""
    if interval.low > 1:
        return "faster"
    return "slower" if interval.high < 1 else "undecided"


def decide(shown: Interval, strict: Interval, *, is_last: bool) -> Verdict | None:
    """The verdict after a relaunch, or None to go on; `shown` is the interval that a user reads, `strict` the one
    that a difference must clear for the trial to stop here.

    >>> decide(Interval(1.9, 1.8, 2.0, 1, 40), Interval(1.9, 1.7, 2.1, 1, 40), is_last=False)
    'faster'
    """
    if is_no_difference(shown):
        return "no difference"
    early = direction(strict)
    may_be_one_odd_process = shown.relaunches == 1 and abs(math.log(shown.ratio)) < PLAIN_AT_ONCE
    if is_last:
        return direction(shown) if early == "undecided" else early
    ends_here = early != "undecided" and not may_be_one_odd_process and is_look(shown.relaunches)
    return early if ends_here else None
