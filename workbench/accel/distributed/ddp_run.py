"""A data-parallel run that goes on by itself: watched, stopped and waited for from the notebook, which stays usable."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from accel.distributed.ddp_result import DdpResult
from accel.distributed.lanes_view import LanesView
from accel.distributed.rank_page import RankLane
from accel.distributed.rank_run import RunOutcome
from accel.distributed.run_cell import CellRun

RunState = Literal["running", "done", "stopped", "failed"]


class DdpRun:
    """A running cell. The trained state is put into the notebook's objects between two cells, or by `wait`, never beside a cell.

    >>> run = accel.ddp(cell, n=2, wait=False)
    >>> run.lanes; run.stop(); run.wait()
    """

    def __init__(
        self, cell: CellRun, *, on_over: Callable[[DdpRun], object],
        finish: Callable[[CellRun, RunOutcome], DdpResult],
    ) -> None:  # fmt: skip
        self._cell, self._on_over, self._finish = cell, on_over, finish
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._began, self._seconds = time.monotonic(), float("nan")
        self._outcome: RunOutcome | None = None
        self._last_lanes: tuple[RankLane, ...] = ()
        self._is_stopping = False
        self.result: DdpResult | None = None  # once the state is home
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="accel-ddp", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome = self._cell.run()
            self._last_lanes = self._outcome.lanes
        except BaseException as error:
            self.error = error
        finally:
            self._seconds = time.monotonic() - self._began
            try:
                self._on_over(self)  # first: who waits may begin the next run at once
            finally:
                self._ended.set()

    @property
    def is_over(self) -> bool:
        """Whether the ranks have finished."""
        return self._ended.is_set()

    @property
    def state(self) -> RunState:
        """In one word."""
        if not self.is_over:
            return "running"
        if self._outcome is None:
            return "failed"
        return "stopped" if self._outcome.was_stopped else "done"

    @property
    def lanes(self) -> tuple[RankLane, ...]:
        """What each rank is doing now, or did last; none before the ranks are up."""
        if not self.is_over:
            self._last_lanes = self._cell.lanes or self._last_lanes
        return self._last_lanes

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return self._seconds if self.is_over else time.monotonic() - self._began

    @property
    def line(self) -> str:
        """State and time in words."""
        ranks = f"{self._cell.pool.ranks} rank{'s' if self._cell.pool.ranks > 1 else ''}"
        if self.is_over:
            ended = {"done": "Done", "stopped": "Stopped", "failed": "Failed"}[self.state]
            return f"{ended} on {ranks} after {self.seconds:.0f} s."
        if not self.lanes:
            return f"Starting {ranks}, {self.seconds:.0f} s."
        return f"{'Stopping' if self._is_stopping else 'Training'} on {ranks}, {self.seconds:.0f} s."

    def stop(self) -> None:
        """All ranks end after the same step; the state of that step comes back. Returns at once."""
        self._is_stopping = True
        self._cell.stop()

    def bring_home(self) -> None:
        """Put the trained state into the notebook's objects, if that has not been done; called between two cells."""
        with self._lock:
            if self._outcome is None or self.result is not None or self.error is not None:
                return
            try:
                self.result = self._finish(self._cell, self._outcome)
                self._outcome.answers.clear()  # they are as large as the state
            except BaseException as error:
                self.error = error
                raise

    def wait(self, timeout_s: float | None = None) -> DdpResult:
        """Block until it is over; gives the result, or raises what made it fail. Ctrl-C leaves it running."""
        if not self._ended.wait(timeout_s):
            raise TimeoutError(f"the run goes on after {timeout_s} s")
        if self.error is not None:
            raise self.error
        self.bring_home()
        assert self.result is not None
        return self.result

    def panel(self) -> Any:
        """The ranks' lanes as a live widget with a Stop button."""
        from accel_widgets.ddp_lanes_panel import DdpLanesPanel

        return DdpLanesPanel(self)

    def __str__(self) -> str:
        after = f"\n{self.result}" if self.result is not None else f"\n{self.error}" if self.error else ""
        return f"{LanesView(self.line, self.lanes)}{after}"

    __repr__ = __str__

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        shown = self.result if self.result is not None else LanesView(self.line, self.lanes)
        return shown._repr_mimebundle_()
