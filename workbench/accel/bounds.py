"""Numbers that a command takes must make sense, whichever door they come in by: magic, program, function or panel."""

from __future__ import annotations

import math
from numbers import Real

from accel.errors import AccelError


def check_steps(asked: str, steps: int) -> None:
    """Refuse to look into no step at all.

    >>> check_steps("--steps 5", 5)
    """
    if not isinstance(steps, int) or isinstance(steps, bool):
        raise AccelError(asked, because="a number of steps is a whole number", do="Use for example 5 steps.")
    if steps < 1:
        raise AccelError(asked, because="at least one step is needed", do="Use for example 5 steps.")


def check_samples(asked: str, samples: int | None) -> None:
    """Refuse a batch without samples; None, the default, is always right.

    >>> check_samples("--largest 512", 512)
    """
    if samples is not None and (not isinstance(samples, int) or isinstance(samples, bool) or samples < 1):
        raise AccelError(asked, because="a batch has one sample or more", do="Use for example 512.")


def check_seconds(asked: str, seconds: float | None) -> None:
    """Refuse a time that is not above zero and finite; None, the default, is always right.

    >>> check_seconds("--timeout-s 60", 60.0)
    """
    if seconds is not None and not (isinstance(seconds, Real) and math.isfinite(seconds) and seconds > 0):
        raise AccelError(asked, because="a time is a number of seconds above 0", do="Use for example 60.")


def check_count(asked: str, count: int, *, of: str = "processes or threads") -> None:
    """Refuse fewer than one of something.

    >>> check_count("-n 2", 2)
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise AccelError(
            asked,
            because=f"a number of {of} is a whole number from 1 on",
            do="Use for example 2.",
        )
