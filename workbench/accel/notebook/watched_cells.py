"""When the cells of a notebook ran, told to a monitor: so that it can say how busy the machine was during one of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accel.machine.telemetry import Monitor

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def tell_cells(shell: InteractiveShell, monitor: Monitor) -> Callable[[], None]:
    """Note the begin and end of every cell from now on in `monitor.cells`; gives the function that ends it.

    >>> stop = tell_cells(shell, monitor)
    >>> monitor.summary(cell=12)
    """
    began_s: list[float] = []

    def begin(*_: object) -> None:
        began_s.append(time.monotonic())  # a cell may run another: shell.run_cell

    def end(result: Any) -> None:
        if not began_s:  # it began before this monitor
            return
        cell_began_s = began_s.pop()
        if result.execution_count is not None:  # a silent one has no number
            monitor.cells[result.execution_count] = (cell_began_s, time.monotonic())

    shell.events.register("pre_run_cell", begin)
    shell.events.register("post_run_cell", end)

    def stop() -> None:
        shell.events.unregister("pre_run_cell", begin)
        shell.events.unregister("post_run_cell", end)

    return stop
