"""A measurement that goes on, at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from accel.shown import Shown


@dataclass(frozen=True)
class Progress(Shown):
    """What runs now in a line, the result so far, and small print.

    >>> print(Progress("Trial: measuring, 3 s. Interrupt stops it.", trial.result))
    """

    line: str
    result: Shown | None = None
    notes: tuple[str, ...] = ()
