"""Runs on ranks as the notebook shows them: lanes that move under the cell, with a Stop button where clicks are heard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accel import options
from accel.distributed.cells.run_lanes import RunLanes
from accel.notebook.screen import Screen

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from accel.distributed.cells.ddp_run import DdpRun
    from accel.distributed.cells.watched_run import WatchedRun

_WIDGET_AFTER_S = 1.0  # a run that is over before needs no button


class LiveRuns:
    """The pages of one shell, for runs that a function begins.

    >>> end = show_runs_in(LiveRuns(shell))
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def page(self) -> LiveLanes:
        """A page for a run that the cell waits for."""
        return LiveLanes(self._shell, is_result_shown=False)

    def when_over(self, run: DdpRun) -> None:
        """The trained state is put into the notebook's objects between two cells, never beside one that uses them.

        A terminal has no loop that could do it; there the next cell begins with it.
        """
        kernel: Any = getattr(self._shell, "kernel", None)
        if kernel is not None:
            kernel.io_loop.add_callback(run.bring_home)


class LiveLanes:
    """The lanes of one run, redrawn in place in a notebook; in a terminal one line until they train.

    >>> page = LiveLanes(shell)
    >>> page.show(run)              # when it begins, as often as one likes, and when it is over

    Where the kernel hears clicks while a cell runs, a run that takes longer gets the panel with its Stop button. When it is
    over, text and table stand there, which a saved notebook keeps. `is_result_shown`: the cell's value tells the rest.
    """

    def __init__(
        self, shell: InteractiveShell, *, is_result_shown: bool = True, screen: Screen | None = None
    ) -> None:
        self._kernel: Any = getattr(shell, "kernel", None)
        self._has_begun = False  # the ranks train: in a terminal what they print comes next
        self._is_notebook, self._is_result_shown = hasattr(shell, "kernel"), is_result_shown
        self._screen = screen or Screen(shell)
        self._panel: Any = None

    def show(self, run: WatchedRun) -> None:
        """Draw, but not more than a few times a second."""
        if run.is_over:
            self._end(run)
        elif self._screen.is_due(bool(run.lanes)) and (self._is_notebook or not self._has_begun):
            self._redraw(run)
            self._has_begun = bool(run.lanes)
            if self._has_begun and not self._is_notebook:
                self._screen.hush()  # rank 0 prints from now on

    def _redraw(self, run: WatchedRun) -> None:
        if self._panel is not None:
            self._panel.refresh()
        elif run.seconds > _WIDGET_AFTER_S and run.lanes and _hears_clicks(self._kernel):
            self._panel = run.panel()
            self._screen.replace(self._panel)
        else:
            later = () if run.lanes or run.job else ("They stay warm for the next run.",)
            interrupt = "Interrupt leaves it running." if run.job else "Interrupt ends it."
            line = run.line if self._is_notebook else f"{run.line} {interrupt}"
            view = RunLanes(line, run.lanes, (*run.notes, run.how_to_stop, *later))
            is_last = bool(run.lanes) and not self._is_notebook
            (self._screen.end if is_last else self._screen.show)(view)

    def _end(self, run: WatchedRun) -> None:
        """It is over; the result itself is the value of a cell that asked for it, and an error follows by itself."""
        is_silent = (
            self._is_notebook and not self._screen.is_used and options.progress
        )  # over before a word was due
        if not is_silent and (self._is_notebook or not self._has_begun):
            has_value = self._is_result_shown and run.result is not None
            notes = run.notes if run.result is not None and not has_value else ()
            self._screen.end(RunLanes(run.line, () if has_value else run.lanes, notes))
        if self._panel is not None:
            self._panel.close()
            self._panel = None


def _hears_clicks(kernel: Any) -> bool:
    """Whether the kernel takes messages in other threads while a cell runs: ipykernel 7 and later."""
    return "kernel subshells" in getattr(kernel, "kernel_info", {}).get("supported_features", ())
