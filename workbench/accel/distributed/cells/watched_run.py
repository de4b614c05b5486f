"""A run on ranks as others see it: a live page, a panel, a status. It goes on in a cell, or in the background."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

from accel.distributed.cells.run_lanes import RunLanes
from accel.distributed.communication.straggler import straggler
from accel.distributed.ranks.rank_page import RankLane
from accel.shown import live_panel
from accel.units import clock, counted

if TYPE_CHECKING:
    from accel.distributed.cells.ddp_result import DdpResult
    from accel.distributed.cells.homecoming import Homecoming
    from accel.distributed.ranks.run_outcome import RunOutcome

RunState = Literal["running", "done", "stopped", "interrupted", "failed"]
_ENDED = {"done": "Done", "stopped": "Stopped", "interrupted": "Interrupted", "failed": "Failed"}
HOW_TO_STOP = (
    "Interrupt ends all ranks at once and leaves your objects as they were. In the background (--background, wait=False) a run "
    "has a Stop button: its ranks end after the same step, and the state of that step comes back."
)
JOB_GOES_ON = (
    "This is the job {job}. Interrupt leaves it running: %accel jobs lists it, with its logs, stops or cancels it. In the "
    "background its state comes home by itself, between two cells."
)


class Runnable(Protocol):
    """A cell on ranks, whoever launched it: watched while it trains, and then taken home."""

    ranks: int
    source: str  # of the cell
    where: str  # in words
    home: Homecoming

    @property
    def job(self) -> str:
        """The name of its job; empty where it is none."""

    @property
    def lanes(self) -> tuple[RankLane, ...]:
        """What each rank is doing now."""

    @property
    def waits_for(self) -> str:
        """What it waits for in a queue."""

    def stop(self) -> None:
        """All ranks end after the same step."""

    def run(self) -> RunOutcome:
        """Wait for its end."""


class WatchedRun:
    """A run with its ranks' lanes, from any thread; who runs it says when it `ended`, and when its state `came_home`.

    >>> run = workbench.ranks.latest
    >>> print(run.line, run.lanes); run.stop()

    Of a run that is over it keeps figures and words, but none of the notebook's objects.
    """

    is_background = False

    def __init__(self, cell: Runnable, how_to_stop: str | None = None) -> None:
        self.ranks, self.job = cell.ranks, cell.job
        self._how_to_stop = (
            JOB_GOES_ON.format(job=self.job) if how_to_stop is None and self.job else how_to_stop
        )
        self.result: DdpResult | None = None  # once the state is home
        self._cell: Runnable | None = cell
        self._ended = threading.Event()
        self._began, self._seconds = time.monotonic(), float("nan")
        self._state: RunState = "running"
        self._last_lanes: tuple[RankLane, ...] = ()
        self._is_stopping, self._failure = False, ""
        self._listeners: list[Callable[[], object]] = []

    @property
    def is_over(self) -> bool:
        """Whether the ranks have finished."""
        return self._ended.is_set()

    @property
    def state(self) -> RunState:
        """In one word."""
        return self._state if self.is_over else "running"

    @property
    def lanes(self) -> tuple[RankLane, ...]:
        """What each rank is doing now, or did last; none before the ranks are up."""
        cell = self._cell
        if not self.is_over and cell is not None:
            self._last_lanes = cell.lanes or self._last_lanes
        return self._last_lanes

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return self._seconds if self.is_over else time.monotonic() - self._began

    @property
    def line(self) -> str:
        """State and time in words."""
        if self.is_over:
            return f"{_ENDED[self.state]} on {counted(self.ranks, 'rank')} after {self.seconds:.0f} s."
        return f"{self.phase} {clock(self.seconds)}."

    @property
    def phase(self) -> str:
        """What it is doing, in words: waiting in a queue, starting, training, stopping."""
        ranks = counted(self.ranks, "rank")
        if self._is_stopping:
            return f"Stopping on {ranks}"
        if not self.lanes:
            return (self._cell.waits_for if self._cell is not None else "") or f"Starting {ranks}"
        return f"Training on {ranks}"

    @property
    def notes(self) -> tuple[str, ...]:
        """The rank that holds the others up now; when it is over, what became of the state, or what made it fail."""
        if self._failure:
            return tuple(self._failure.splitlines())
        if self.result is not None:
            result = self.result
            return (result.state_line, *filter(None, (result.values_line,)), *result.warnings)
        slow = None if self.is_over else straggler(self.lanes)
        return (str(slow),) if slow else ()

    @property
    def how_to_stop(self) -> str:
        """Of a run that a cell waits for, where there is no Stop button."""
        if self.is_background or self.is_over:
            return ""
        return HOW_TO_STOP if self._how_to_stop is None else self._how_to_stop

    @property
    def straggler(self) -> int | None:
        """The rank that holds the others up, if one does."""
        slow = straggler(self.lanes)
        return slow.rank if slow else None

    def stop(self) -> None:
        """All ranks end after the same step; the state of that step comes back. Returns at once, and may be called late."""
        if (cell := self._cell) is not None and not self.is_over:
            self._is_stopping = True
            cell.stop()

    # --- who runs it says -------------------------------------------------------------------------------------------

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Around running it in this thread and bringing its state home: an error in either is said here too."""
        try:
            yield
        except BaseException as error:
            if self.is_over:
                self.came_home(None, error)
            else:
                self.ended(None, error)
            raise

    def ended(self, outcome: RunOutcome | None, error: BaseException | None = None) -> None:
        """The ranks have finished: well, with an outcome, or not."""
        lanes = self.lanes
        self._last_lanes = outcome.lanes if outcome is not None else lanes
        self._seconds = time.monotonic() - self._began
        if outcome is not None and not self._failure:
            self._state = "stopped" if outcome.was_stopped else "done"
        elif isinstance(error, KeyboardInterrupt):
            self._state = "interrupted"
        elif error is not None:
            self._fail(error)
        if outcome is None:
            self._cell = None
        self._ended.set()
        self._tell()

    def came_home(self, result: DdpResult | None, error: BaseException | None = None) -> None:
        """The trained state is in the notebook's objects, or could not be put there."""
        self.result, self._cell = result, None
        if error is not None:
            self._fail(error)
        self._tell()

    def _fail(self, error: BaseException) -> None:
        self._state, self._failure = (
            "failed",
            str(error) or type(error).__name__,
        )  # an error itself holds its frames

    # --- who looks --------------------------------------------------------------------------------------------------

    def on_change(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` when it is over and when its state is home, from any thread; returns how to end that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def _tell(self) -> None:
        for listener in list(self._listeners):
            try:
                listener()
            except Exception:  # whoever shows it; the run and its state have nothing to do with that
                traceback.print_exc()

    @property
    def view(self) -> RunLanes:
        """Its line, lanes and notes at this moment."""
        return RunLanes(self.line, self.lanes, self.notes)

    def panel(self) -> Any:
        """The ranks' lanes as a live widget with a Stop button."""
        return live_panel(self)

    def __str__(self) -> str:
        return (
            f"{RunLanes(self.line, self.lanes)}\n{self.result}" if self.result is not None else str(self.view)
        )

    __repr__ = __str__

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return (self.result if self.result is not None else self.view)._repr_mimebundle_()
