"""Where runs on ranks are shown while they go on: the notebook puts its pages here, a script has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from accel.distributed.cells.ddp_run import DdpRun
    from accel.distributed.cells.watched_run import WatchedRun


class RunPage(Protocol):
    """Shows one run."""

    def show(self, run: WatchedRun) -> None:
        """It begins, goes on or is over; called in the thread that runs it."""


class RunPages(Protocol):
    """What a notebook does for runs that a function begins, as `accel.ddp(train)`."""

    def page(self) -> RunPage:
        """A page for a run that the cell waits for."""

    def when_over(self, run: DdpRun) -> None:
        """A run in the background is over, or its state is home; called from any thread."""


_current: list[RunPages] = []


def show_runs_in(pages: RunPages) -> Callable[[], None]:
    """From now on runs are shown there; returns how to end that.

    >>> end = show_runs_in(pages)
    """
    _current[:] = [pages]
    return lambda: _current.remove(pages) if pages in _current else None


def run_pages() -> RunPages | None:
    """Where runs are shown, if anywhere."""
    return _current[0] if _current else None
