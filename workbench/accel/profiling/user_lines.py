"""Which line of the user's code runs when: an instant in the trace whenever another one begins (`--stacks`).

Why not torch.profiler's own stacks: they name the line at which a function begins, not the one that runs; they see no
operators (`a + b`); and they record every Python call, so a first step under torch.compile fills the memory.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from accel.workload.user_code import CodeLine, is_users_own

LINE = "accel.line::"  # and the line's number in `UserLines.lines`; NOWHERE is after the last of the user's frames
NOWHERE = -1
MOST_INSTANTS = 200_000  # a loop in plain Python must not fill the trace: about 0.2 s
BUSY = "a debugger or a coverage tool traces your code already, so no lines were recorded"
FULL = (
    f"your code ran more than {MOST_INSTANTS:,} lines while it was profiled, so later operations have no line"
)


class UserLines:
    """Follows this thread's Python by `sys.settrace`, the user's own functions line by line, all others not at all.

    >>> lines = UserLines()
    >>> lines.start(); exec(cell); lines.stop()
    >>> lines.lines[0]
    CodeLine(filename='<ipython-input-3-0f1e>', line=2)

    `count` instants were written. `reason` says why lines are missing; it is empty when all were followed.
    """

    def __init__(self) -> None:
        self.lines: list[CodeLine] = []
        self.count = 0
        self.reason = ""
        self._ranges: dict[tuple[str, int], Any] = {}
        self._running: list[
            Any
        ] = []  # the instant of the line that each of the user's frames is at, innermost last
        self._is_own: dict[str, bool] = {}

    def start(self) -> None:
        """Follow from here on what this thread calls; functions that run already are not followed."""
        from torch._C._profiler import _RecordFunctionFast

        if sys.gettrace() is not None:
            self.reason = BUSY
            return
        _keep_from_dynamo(self._on_call, self._on_line)
        self._instant_of = _RecordFunctionFast
        self._nowhere = _RecordFunctionFast(f"{LINE}{NOWHERE}")
        sys.settrace(self._on_call)

    def stop(self) -> None:
        """Stop following, unless other code has taken over since."""
        if sys.gettrace() == self._on_call:
            sys.settrace(None)
        self._ranges.clear()
        self._running.clear()

    def _on_call(self, frame: FrameType, event: str, arg: object) -> Any:
        name = frame.f_code.co_filename
        is_own = self._is_own.get(name)
        if is_own is None:
            is_own = self._is_own[name] = is_users_own(name)
        if not is_own:
            return None
        self._running.append(self._nowhere)
        return self._on_line

    def _on_line(self, frame: FrameType, event: str, arg: object) -> Any:
        running = self._running
        if event == "line":
            key = frame.f_code.co_filename, frame.f_lineno
            instant = self._ranges.get(key) or self._first_sight(key)
            if running:
                running[-1] = instant
        elif event == "return":
            if running:
                running.pop()
            instant = running[-1] if running else self._nowhere
        else:
            return self._on_line
        instant.__enter__()
        instant.__exit__(None, None, None)
        self.count += 1
        if self.count >= MOST_INSTANTS:
            self.reason = FULL
            self.stop()
        return self._on_line

    def _first_sight(self, key: tuple[str, int]) -> Any:
        instant = self._ranges[key] = self._instant_of(f"{LINE}{len(self.lines)}")
        self.lines.append(CodeLine(*key))
        return instant


def _keep_from_dynamo(*functions: Any) -> None:
    """Where torch.compile runs the user's function, it would look at the functions that trace it, too."""
    eval_frame = sys.modules.get("torch._dynamo.eval_frame")
    for function in functions if eval_frame is not None else ():
        eval_frame.skip_code(function.__code__)  # type: ignore[union-attr]
