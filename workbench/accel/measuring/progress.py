"""A measurement that goes on, at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from accel.doing import what_goes_on
from accel.shown import Shown
from accel.units import clock


@dataclass(frozen=True)
class Beat:
    """What goes on at one moment: its phase and for how long, and how much of the time is gone.

    >>> print(Beat("Trial", "compiling", 14.0, detail="compile_model", seconds=65.0, at_most_s=240.0))
    Trial · compiling 0:14 · compile_model · 1:05 of at most 4:00

    Notebook, terminal and panel show these words each second.
    """

    called: str
    phase: str
    phase_s: float
    detail: str = ""
    seconds: float = 0.0  # since the command
    at_most_s: float | None = None  # None: nobody knows
    is_strict: bool = True  # it ends then, whatever it waits for

    @property
    def whole(self) -> str:
        """How much of the time is gone; a usual time that is over says nothing any more."""
        if self.at_most_s is None:
            return ""
        if not self.is_strict and self.seconds > self.at_most_s:
            return clock(self.seconds)
        return f"{clock(self.seconds)} of {'at most' if self.is_strict else 'about'} {clock(self.at_most_s)}"

    def __str__(self) -> str:
        return " · ".join(
            filter(None, [self.called, f"{self.phase} {clock(self.phase_s)}", self.detail, self.whole])
        )


def beat_of(called: str, seconds: float) -> Beat:
    """The beat of something that has been going on for so long, in the words of what says what it does.

    >>> print(beat_of("%accel peaks", 3.2))
    %accel peaks · running 0:03
    """
    now = what_goes_on()
    return Beat(called, str(now), now.seconds) if now is not None else Beat(called, "running", seconds)


def sweep_line(now: str, seconds: float) -> str:
    """What a sweep does, for how long it has been running, and how to end it.

    >>> print(sweep_line("2 of 6: 2 processes, step 40", 100.0))
    Sweep · 2 of 6: 2 processes, step 40 · 1:40. Interrupt keeps what was measured.
    """
    return f"Sweep · {now} · {clock(seconds)}. Interrupt keeps what was measured."


@dataclass(frozen=True)
class Progress(Shown):
    """What runs now in a line, the result so far, and small print.

    >>> print(Progress("Trial · measuring 0:03. Interrupt stops it."))
    Trial · measuring 0:03. Interrupt stops it.
    """

    line: str
    result: Shown | None = None
    notes: tuple[str, ...] = ()
