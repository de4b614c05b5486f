"""Where the training code waits for the device on the quiet: `.item()`, `.cpu()`, `print(loss)`, with the line."""

from __future__ import annotations

from dataclasses import dataclass

from accel.workload.user_code import CodeLine


@dataclass(frozen=True)
class Synchronisation:
    """One call in the user's code that reads a tensor back; `ms` and `calls` are means per step.

    Of the steps that count: no warm-up, none under the profiler, no unusually slow one; in a cell without steps, of its run.

    >>> print(profile.synchronisations[0])
    Tensor.item at cell, line 7: running += loss.item() (1 a step, 4.1 ms on cuda:0)
    """

    call: str  # "Tensor.item", "Tensor.cpu", "print", "float", …; see CALLS in synchronisation_watch.py
    filename: str
    line: int
    text: str  # the line itself
    device: str  # of the tensor: on "cpu" nothing waits
    ms: float
    calls: float

    @property
    def place(self) -> str:
        """The file and number to look at: "train.py, line 12"; a cell's file is "cell"."""
        return str(CodeLine(self.filename, self.line))

    def __str__(self) -> str:
        from accel.units import milliseconds

        often = f"{self.calls:.3g} a step, {milliseconds(self.ms)} on {self.device}"
        return f"{self.call} at {self.place}: {self.text} ({often})"
