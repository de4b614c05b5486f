"""`%accel sweep` and `%%accel sweep`: the table on the page while its rows fill; Interrupt keeps those that are there."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from accel.measuring.progress import Progress, sweep_line
from accel.measuring.sweep import Sweep
from accel.notebook.ddp_cell import RunInterrupted, cell_as_python
from accel.notebook.screen import Screen
from accel.workbench.kept_ranks import registered
from accel.workbench.rank_sweep import sweep_of

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from accel.workbench import Workbench


def run_sweep(
    shell: InteractiveShell, workbench: Workbench, line: str, options: argparse.Namespace, cell: str | None,
    screen: Screen | None = None,
) -> Sweep:  # fmt: skip
    """The Sweep of a parsed line, over the cell below it or the profiled one."""
    source = filename = None
    if cell is not None:
        source = cell_as_python(cell, shell.transform_cell, asked="%%accel sweep")
        filename = registered(f"%%accel {line}\n{cell}", f"<cell {shell.execution_count} on ranks>")
    page = _LiveTable(screen or Screen(shell))
    wanted = {
        name: value for name, value in vars(options).items() if name not in ("command", "help", "out", "cell")
    }
    try:
        result = sweep_of(workbench, source, filename=filename or "", show=page.draw, **wanted)
    except KeyboardInterrupt:
        page.end("Interrupted before the first run was over")
        raise RunInterrupted(
            "no run was over yet; all ranks were ended, and your objects are as they were."
        ) from None
    except BaseException:
        page.end("The sweep failed")
        raise
    page.end(result.why_ended or "The sweep is done")
    return result


class _LiveTable:
    """Redrawn in place in a notebook; in a terminal a line."""

    def __init__(self, screen: Screen) -> None:
        self._screen, self._began = screen, time.monotonic()

    def draw(self, sweep: Sweep, now: str) -> None:
        """The rows so far, and what runs."""
        line = sweep_line(now, time.monotonic() - self._began)
        self._screen.show(Progress(line, sweep), topic=now.split(",")[0])

    def end(self, how: str) -> None:
        """It is over; the result itself is the value of the cell."""
        if self._screen.is_used:  # else nothing was begun
            self._screen.end(Progress(f"{how.rstrip('.')}, {time.monotonic() - self._began:.0f} s."))
