"""Where the training code waits for the device on the quiet: `.item()`, `.cpu()`, `print(loss)`.

The calls that read a tensor back are counted and timed while a cell runs, with the user's line of each.
"""

from __future__ import annotations

import functools
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from accel.workload.callers_line import at_callers_line
from accel.workload.read_backs import Number, ReadBack
from accel.workload.user_code import CodeLine, users_line

if TYPE_CHECKING:
    from accel.hooks.attribute_patches import AttributePatches
    from accel.workload.step_boundaries import Step, Steps


@dataclass(frozen=True)
class Synchronisation:
    """One call in the user's code that reads a tensor back; `ms` and `calls` are means per step.

    Of the steps that count: no warm-up, none under the profiler, no unusually slow one; in a cell without steps, of its run.

    >>> print(profile.synchronisations[0])
    Tensor.item at cell, line 7: running += loss.item() (1 a step, 4.1 ms on cuda:0)
    """

    call: str  # "Tensor.item", "Tensor.cpu", "print", "float", …; see CALLS
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


Method = Callable[..., Any]
# Method of torch.Tensor → what a reader calls it.
CALLS = {
    "item": "Tensor.item", "tolist": "Tensor.tolist", "cpu": "Tensor.cpu", "numpy": "Tensor.numpy",
    "__array__": "numpy.asarray", "__bool__": "bool", "__float__": "float", "__int__": "int", "__index__": "int",
    "__repr__": "print", "__format__": "format",
}  # fmt: skip
_NUMBERS: dict[type, Number] = {float: "float", int: "int", bool: "bool"}
MOST_CALLS = 1_000_000  # 16 MB; as with marks, a day of training must not fill the memory


class _Calls:
    """When one line's calls began, in order, and how long each took, in ns."""

    def __init__(self) -> None:
        self.begins, self.lasts = array("q"), array("q")

    def within(self, begin_ns: int, end_ns: int) -> Sequence[int]:
        return self.lasts[bisect_left(self.begins, begin_ns) : bisect_left(self.begins, end_ns)]


class SynchronisationWatch:
    """Wraps the methods in CALLS; what torch itself calls, as optimizers do, passes through uncounted.

    >>> watch = SynchronisationWatch()
    >>> watch.install(marks.patches)        # taken back with the marks' own patches
    >>> watch.found(recording.steps)[0].call
    'Tensor.item'
    """

    def __init__(self) -> None:
        self._calls: dict[tuple[str, CodeLine, str], _Calls] = {}
        self._numbers: dict[tuple[CodeLine, str, Number], None] = {}
        self._noted = 0

    def install(self, patches: AttributePatches) -> None:
        """Wrap; `patches` gives the originals back at the end, and while torch.compile looks at them."""
        import torch

        for method, call in CALLS.items():
            patches.add(
                torch.Tensor, method, self._watched(call, at_callers_line(getattr(torch.Tensor, method)))
            )

    def found(self, steps: Steps) -> tuple[Synchronisation, ...]:
        """What was called in the steps that count, most time first, per step; in all of a cell that takes none.

        The steps are those that shares of phases come from: what warm-up, the profiler or a stall did to the others is left out,
        as are calls between epochs and after the loop.
        """
        counted = _counted(steps)
        rows = []
        for (call, line, device), calls in self._calls.items():
            inside = [ns for step in counted for ns in calls.within(step.begin_ns, step.end_ns)]
            lasts, count = (inside, len(counted)) if counted else (calls.lasts, 1)
            if lasts:
                ms = sum(lasts) / count / 1e6
                rows.append(Synchronisation(call, *line, line.text, device, ms, len(lasts) / count))
        return tuple(sorted(rows, key=lambda row: -row.ms))

    def read_backs(self) -> tuple[ReadBack, ...]:
        """The lines that read a single number, in the order they were first run, with what Python got there."""
        return tuple(ReadBack(*line, number, device) for line, device, number in self._numbers)

    def _watched(self, call: str, original: Method) -> Method:
        from torch.compiler import is_compiling

        home = get_ident()

        @functools.wraps(original)
        def watched(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(tensor, *args, **kwargs)
            caller = sys._getframe(1)
            module = caller.f_globals.get("__name__")
            if get_ident() != home or (isinstance(module, str) and module.partition(".")[0] == "torch"):
                return original(tensor, *args, **kwargs)
            device, began = _device_of(tensor), perf_counter_ns()
            number: Any = None
            try:
                number = original(tensor, *args, **kwargs)
                return number
            finally:
                self._note(call, users_line(caller), device, began, perf_counter_ns() - began, number)

        return watched

    def _note(
        self, call: str, line: CodeLine | None, device: str, began_ns: int, lasts_ns: int, number: Any
    ) -> None:
        if line is None or self._noted >= MOST_CALLS:
            return
        if call in ("Tensor.item", "float") and (kind := _NUMBERS.get(type(number))) is not None:
            self._numbers[line, device, kind] = None
        calls = self._calls.setdefault((call, line, device), _Calls())
        # At the end, unless other calls of the same line were made inside this one and are noted already.
        place = bisect_right(calls.begins, began_ns)
        calls.begins.insert(place, began_ns)
        calls.lasts.insert(place, lasts_ns)
        self._noted += 1


def _counted(steps: Steps) -> Sequence[Step]:
    return [step for step in steps.timed if not step.is_outlier] or steps.timed


def _device_of(tensor: Any) -> str:
    """Its device in words; a subclass with a `__torch_function__` of its own is not to hear of the question."""
    from torch._C import DisableTorchFunctionSubclass

    with DisableTorchFunctionSubclass():
        return "cpu" if tensor.is_cpu else str(tensor.device)
