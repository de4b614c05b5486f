"""Where a line was typed, and what it may use there: here a terminal or a script; a notebook has a place of its own."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, TypeVar

from accel.errors import AccelError

if TYPE_CHECKING:
    from accel.distributed.jobs.job_folder import JobFolder
    from accel.workbench import Workbench
    from accel.workers.background_trial import BackgroundTrial

Result = TypeVar("Result")


class Place:
    """A place without a page to draw on.

    >>> command_named("machine").run(parse("machine"), Place()).usable_cores
    2
    """

    def __init__(
        self, workbench: Workbench | None = None, *, program: str = "%accel", cell: str | None = None
    ) -> None:
        self._workbench, self.program, self.cell = workbench, program, cell

    @property
    def has_workbench(self) -> bool:
        """Whether there is a training to work on."""
        return self._workbench is not None

    @property
    def workbench(self) -> Workbench:
        """The workbench; a command that needs a notebook has one."""
        assert self._workbench is not None
        return self._workbench

    def follow(self, trial: BackgroundTrial[Result], about: str = "") -> Result:
        """Wait for a trial, showing what goes on."""
        return trial.wait()

    def watch(self, seconds: float | None, every: float) -> object:
        """Watch the machine, and give what was seen when it is over."""
        from accel.machine.telemetry import watch

        return watch(seconds, every=every)

    def run_on_ranks(self, options: argparse.Namespace) -> Any:
        """Train the cell on ranks."""
        raise self._needs_a_page("ddp")

    def take_home(self, folder: JobFolder) -> object:
        """Wait for a job, and put what it trained into the notebook's objects."""
        return self.workbench.ranks.take_home(folder)

    def sweep(self, options: argparse.Namespace) -> object:
        """Train the cell on ever more ranks."""
        raise self._needs_a_page("sweep")

    def open_panel(self) -> object:
        """The workbench as a widget."""
        raise self._needs_a_page("panel")

    def _needs_a_page(self, name: str) -> AccelError:
        return AccelError(
            f"{self.program} {name}", because="it needs a notebook", do=f"In a script, call accel.{name}()."
        )
