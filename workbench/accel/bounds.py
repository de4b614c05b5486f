"""Validate numeric arguments, for commands and functions alike."""

from __future__ import annotations

import math
import os
from numbers import Real

from accel.errors import AccelError, shortened
from accel.units import in_bytes

LEAST_S = 0.001
MOST_S = 1_000_000  # eleven days; what poll() takes ends at 24
MOST = 1_000_000_000
RANKS_A_CPU = 4


def check_steps(asked: str, steps: int) -> None:
    """Refuse to look into no step at all.

    >>> check_steps("--steps 5", 5)
    """
    if not isinstance(steps, int) or isinstance(steps, bool):
        raise AccelError(asked, because="a number of steps is a whole number", do="Use for example 5 steps.")
    if steps < 1:
        raise AccelError(asked, because="at least one step is needed", do="Use for example 5 steps.")
    if steps > MOST:
        raise AccelError(
            shortened(asked, 60), because=f"the largest number of steps is {MOST:,}", do="Use for example 5."
        )


def check_samples(asked: str, samples: int | None) -> None:
    """Refuse a batch without samples; None, the default, is always right.

    >>> check_samples("--largest 512", 512)
    """
    is_count = isinstance(samples, int) and not isinstance(samples, bool)
    if samples is not None and not (is_count and 1 <= samples <= MOST):
        because = f"a batch has between 1 and {MOST:,} samples"
        raise AccelError(shortened(asked, 60), because=because, do="Use for example 512.")


def check_seconds(asked: str, seconds: float | None) -> None:
    """Refuse a time that no clock of the system takes; None, the default, is always right.

    >>> check_seconds("--timeout-s 60", 60.0)
    """
    if seconds is None:
        return
    is_number = isinstance(seconds, Real) and not isinstance(seconds, bool)
    if not (is_number and seconds > 0 and seconds != math.inf):
        because = "a time is a number of seconds above 0"
    elif not LEAST_S <= seconds <= MOST_S:
        because = f"a time is between {LEAST_S:g} s and {MOST_S:,} s"
    else:
        return
    raise AccelError(shortened(asked, 60), because=because, do="Use for example 60.")


def check_share(asked: str, share: float | None) -> None:
    """Refuse what is no share; None, the default, is always right.

    >>> check_share("--keep-quality 0.5%", 0.005)
    """
    is_number = isinstance(share, Real) and not isinstance(share, bool)
    if share is not None and not (is_number and 0 <= share < 1):
        raise AccelError(
            shortened(asked, 60), because="it is a share, from 0 to 1", do="Use for example 0.005, or 0.5%."
        )


def checked_size(asked: str, size: int | str | None) -> int | None:
    """Bytes, also of text with a unit; raises AccelError for what is no size of memory.

    >>> checked_size("--fit 2GB", "2GB"), checked_size("tune(fit=1024)", 1024)
    (2000000000, 1024)
    """
    if size is None:
        return None
    is_number = isinstance(size, Real) and not isinstance(size, bool)
    count = float(size) if is_number else in_bytes(str(size))
    if not 1 <= count < math.inf:
        raise AccelError(
            shortened(asked, 60), because="it is a size of memory, as a number of bytes or with its unit",
            do="Use for example 2GiB, 2GB or 500MB.",
        )  # fmt: skip
    return int(count)


def check_count(asked: str, count: int, *, of: str = "processes or threads", most: int = MOST) -> None:
    """Refuse fewer than one of something, and more than any machine takes.

    >>> check_count("-n 2", 2)
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise AccelError(
            asked,
            because=f"a number of {of} is a whole number from 1 on",
            do="Use for example 2.",
        )
    if count > most:
        raise AccelError(
            shortened(asked, 60), because=f"the largest number of {of} is {most:,}", do="Use for example 2."
        )


def check_ranks(asked: str, ranks: int) -> None:
    """Refuse more processes than this machine can hold: each has a Python and a torch of its own.

    >>> check_ranks("-n 2", 2)
    """
    check_count(asked, ranks)
    cpus = os.cpu_count() or 1
    if ranks > (most := max(16, RANKS_A_CPU * cpus)):
        raise AccelError(
            shortened(asked, 60),
            because=f"this machine has {cpus} CPUs, and a rank is a process with a torch of its own",
            do=f"Use {cpus} or fewer; {most} is the most.",
        )
