"""A data-parallel run that goes on by itself: watched, stopped and waited for from the notebook, which stays usable."""

from __future__ import annotations

import threading
from collections.abc import Callable

from accel.distributed.cells.ddp_result import DdpResult
from accel.distributed.cells.watched_run import Runnable, WatchedRun
from accel.distributed.ranks.run_outcome import RunOutcome


class DdpRun(WatchedRun):
    """A running cell. Its trained state comes into the notebook's objects between cells or by `wait`, never while a cell runs.

    >>> run = accel.ddp(cell, n=2, wait=False)
    >>> run.lanes; run.stop(); run.wait()
    """

    is_background = True

    def __init__(
        self, cell: Runnable, *, on_over: Callable[[], object],
        finish: Callable[[Runnable, RunOutcome], DdpResult],
    ) -> None:  # fmt: skip
        super().__init__(cell)
        self._on_over, self._finish = on_over, finish
        self._outcome: RunOutcome | None = None
        self._bringing = threading.RLock()
        self.error: BaseException | None = None

    def begin(self) -> DdpRun:
        """Run it in a thread of its own."""
        threading.Thread(target=self._run, args=(self._cell,), name="accel-ddp", daemon=True).start()
        return self

    def _run(self, cell: Runnable) -> None:
        try:
            self._outcome = cell.run()
        except BaseException as error:
            self.error = error
        finally:
            try:
                self._on_over()  # first: who waits may begin the next run at once
            finally:
                self.ended(self._outcome, self.error)

    def bring_home(self) -> None:
        """Put the trained state into the notebook's objects, if that has not been done; called between two cells."""
        with self._bringing:
            cell = self._cell
            if self._outcome is None or cell is None or self.error is not None:
                return
            try:
                result = self._finish(cell, self._outcome)
                self._outcome.answers.clear()  # they are as large as the state
            except BaseException as error:
                self.error = error
                self.came_home(None, error)
                raise
            self.came_home(result)  # before another thread may look: it is brought home once

    def wait(self, timeout_s: float | None = None) -> DdpResult:
        """Block until it is over; gives the result, or raises what made it fail. Ctrl-C leaves it running."""
        if not self._ended.wait(timeout_s):
            raise TimeoutError(f"the run goes on after {timeout_s} s")
        if self.error is not None:
            raise self.error
        self.bring_home()
        assert self.result is not None
        return self.result
