"""A notebook as the place of a command: its workbench, its page, the cell under the line."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from accel.commands import Place
from accel.measuring.progress import Progress, beat_of
from accel.notebook.page_news import toast_if_long
from accel.notebook.screen import Screen
from accel.notebook.waiting import follow

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from accel.distributed.jobs.job_folder import JobFolder
    from accel.machine.telemetry import Monitor
    from accel.workbench import Workbench
    from accel.workers.background_trial import BackgroundTrial

Result = TypeVar("Result")


class NotebookPlace(Place):
    """Where one line was typed; `keep` is given a monitor that goes on after it."""

    def __init__(
        self,
        shell: InteractiveShell,
        workbench: Callable[[], Workbench],
        line: str,
        cell: str | None,
        keep: Callable[[Monitor], None],
    ) -> None:
        super().__init__(cell=cell)
        self._shell, self._find, self._line, self._keep = shell, workbench, line, keep
        self._screen = Screen(shell)

    @contextmanager
    def beating(self, command: str) -> Iterator[None]:
        """While the command runs, a line each second where nothing else says what goes on."""
        began = time.monotonic()
        with self._screen.beating(
            lambda: Progress(str(beat_of(f"%accel {command}", time.monotonic() - began)))
        ):
            yield

    @property
    def has_workbench(self) -> bool:
        """A notebook has one."""
        return True

    @property
    def workbench(self) -> Workbench:
        """That of the notebook."""
        return self._find()

    def follow(self, trial: BackgroundTrial[Result], about: str = "") -> Result:
        """Its result fills on the page; Interrupt stops it."""
        return follow(trial, self._screen, about)

    def watch(self, seconds: float | None, every: float) -> object:
        """Live on the page, while cells run; in a terminal until it is over."""
        if not hasattr(self._shell, "kernel"):
            return super().watch(seconds, every)
        from accel.machine.telemetry import monitor

        watching = monitor(seconds, every=every)
        self._keep(watching)
        return watching

    def run_on_ranks(self, options: argparse.Namespace) -> Any:
        """Rank 0 prints here, and lanes show what the others do."""
        from accel.notebook.ddp_cell import run_ddp_cell  # loads what `%load_ext accel` must not

        assert self.cell is not None
        return run_ddp_cell(self._shell, self.workbench, self._line, options, self.cell, self._screen)

    def take_home(self, folder: JobFolder) -> object:
        """Its lanes move on the page while it trains."""
        from accel.notebook.live_runs import LiveLanes

        return self.workbench.ranks.take_home(folder, LiveLanes(self._shell, screen=self._screen))

    def sweep(self, options: argparse.Namespace) -> object:
        """Its table fills on the page."""
        from accel.notebook.sweep_cell import run_sweep

        return run_sweep(self._shell, self.workbench, self._line, options, self.cell, self._screen)

    def open_panel(self) -> object:
        """The workbench as a widget."""
        import accel_widgets

        return accel_widgets.panel_of(self.workbench, partial(toast_if_long, self._shell))


def make_ready() -> None:
    """Import what the panel is made of: half a second that its user does not wait for, where it is done between two cells.

    >>> make_ready()
    """
    from accel_widgets import WorkbenchPanel  # noqa: F401
