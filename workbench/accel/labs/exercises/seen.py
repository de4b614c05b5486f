"""What a check of an exercise saw, and how it measures: what is near its threshold is measured again, the median decides."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from accel.errors import AccelError

NEAR = 0.15  # of the threshold: as far as medians of short runs on a shared machine lie apart
MOST_TIMES = 3
MOST_S = 10.0  # of one call of a student's function: one that never ends is an answer, too
Figure = float | str | bool


class TooLong(BaseException):
    """A student's function had not ended in time; no `except Exception` of theirs takes it."""


@dataclass(frozen=True)
class Seen:
    """Whether the work does what was asked; `saw` and `asked` are sentences, `figures` the evidence that is kept.

    `hint` is for this very mistake; without one the exercise's own is shown.
    """

    passed: bool
    saw: str
    asked: str
    figures: Mapping[str, Figure] = field(default_factory=dict)
    hint: str = ""


def measured(
    measure: Callable[[], float],
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    first: float | None = None,
) -> tuple[bool, float, int]:
    """Whether a measured value reaches its threshold: (reached, the value that decided, how often it was measured).

    >>> measured(lambda: 2.0, at_least=1.3)
    (True, 2.0, 1)

    Args:
        measure: Measures once more.
        at_least: The value has to reach this, or
        at_most: must not exceed this.
        first: A value that the student measured already, which counts as the first.
    """
    wanted = at_least if at_least is not None else at_most
    assert wanted is not None
    values = [measure() if first is None else first]
    while len(values) < MOST_TIMES and abs(median(values) - wanted) <= NEAR * abs(wanted):
        values.append(measure())
    decided = median(values)
    reached = decided >= wanted if at_least is not None else decided <= wanted
    return reached, decided, len(values)


def wrong_work(what: str, because: str, do: str) -> AccelError:
    """The error for work that no check can look at: the student passed something else than was asked for.

    >>> raise wrong_work("a Profile", "a list was given", "Pass the variable of %%accel profile -o NAME.")
    """
    return AccelError(f"This check of {what}", because=because, do=do)


def function_of(work: object) -> Callable[..., Any]:
    """The student's function; raises AccelError where it is none.

    >>> function_of(lambda length: 64)(50)
    64
    """
    if not callable(work):
        raise wrong_work(
            "a function", "this cannot be called", "Pass the function itself, without calling it."
        )
    return work


def outcome(function: Callable[..., Any], *values: object) -> Any:
    """What the student's function gives; where it raises, the error's words, for that is its answer.

    >>> outcome(lambda length: 64 / length, 0)
    'ZeroDivisionError: division by zero'
    """
    try:
        with _ends_after(MOST_S):
            return function(*values)
    except TooLong as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@contextmanager
def _ends_after(seconds: float) -> Iterator[None]:
    """Raise TooLong in what has not ended by then; only the main thread can be interrupted so, and not on Windows."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def end(number: int, frame: object) -> None:
        raise TooLong(f"it had not ended after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def is_near(given: object, right: float, tolerance: float = 1e-6) -> bool:
    """Whether an answer is a number that close to the right one, as a share of it; NaN and True are none.

    >>> is_near(97.5, 97.5), is_near(float("nan"), 97.5), is_near("97.5", 97.5)
    (True, False, False)
    """
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        return False
    return bool(abs(given - right) <= tolerance * abs(right))


def is_same(given: object, right: object) -> bool:
    """Whether an answer equals the right one; what cannot be compared does not, and True is no 1.

    >>> is_same(7, 7), is_same(True, 1), is_same((0, 1, 0), (0, 1, 0))
    (True, False, True)
    """
    try:
        return isinstance(given, bool) is isinstance(right, bool) and bool(given == right)
    except Exception:
        return False
