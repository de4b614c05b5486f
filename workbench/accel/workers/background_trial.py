"""What all trials have in common: they run in the background, can be waited for, watched and stopped, and say how it ended."""

from __future__ import annotations

import asyncio
import math
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from datetime import datetime
from pathlib import Path
from threading import Timer
from typing import Any, Generic, Literal, TypeVar

from accel.history.history_file import is_history
from accel.machine.others_measuring import OthersMeasuring
from accel.machine.peaks.other_work import OtherWork
from accel.measuring.disturbance import Disturbance, worst
from accel.measuring.progress import Beat
from accel.private_disk import FilesSeen, current_folder, in_words, note_of
from accel.shown import Shown
from accel.shown_text import one_line
from accel.workers.relaunch import Relaunch
from accel.workers.time_budget import PhaseClock, TimeBudget
from accel.workload.shipping import Parcel
from accel.workload.uninterrupted import uninterrupted

TrialState = Literal["starting", "measuring", "confirming", "done", "stopped", "failed"]
Result = TypeVar("Result")
_ENDING_S = 30.0  # at most, for the workers of a stopped trial to end on a busy machine


class BackgroundTrial(Shown, ABC, Generic[Result]):
    """Measures in a thread of its own once it is started; `result` is what is known at any time.

    >>> trial.start()
    >>> trial.wait()            # or: await trial, trial.stop(), trial.on_change(draw)

    A subclass says how to `_measure` and what the `result` is.
    """

    notes: tuple[str, ...] = ()  # below its `line`
    command, called = "%accel try", "Trial"  # in errors, and in the line of progress
    is_written_as_it_goes = False  # what it measured is in the history before it is over

    def __init__(self, parcel: Parcel, check: Callable[[], str], budget: TimeBudget) -> None:
        self._parcel, self._check, self.budget = parcel, check, budget
        self.began = datetime.now().astimezone().isoformat(timespec="seconds")
        self.phases = PhaseClock(
            "preparing", began=budget.began, clock=budget.clock, on_phase=lambda: self._changed()
        )
        self.others_measuring = OthersMeasuring()
        self.is_out_of_time = False  # ended in the middle of something, because the time was up
        self._listeners: list[Callable[[], None]] = []
        self._lock = threading.RLock()
        self._stop, self._over = threading.Event(), threading.Event()
        self._everybody_knows = threading.Event()  # the listeners were notified that it is over
        self._relaunch: Relaunch | None = None
        self._seconds = 0.0
        self._unchanged = ""
        self._is_stopped = False  # by the user
        self._stopped_at = 0.0
        self._disks: set[str] = set()
        self._files = FilesSeen.of(current_folder())
        self._thread: threading.Thread | None = None
        self._state: TrialState = "starting"
        self.error: BaseException | None = None

    @property
    @abstractmethod
    def result(self) -> Result:
        """A snapshot of what is known now."""

    @property
    def _ended_early(self) -> str:
        """Text that says that the trial still runs, was stopped or failed; empty if it measured all it could in its time."""
        if not self.is_over:
            return "the trial is still running"
        return {"stopped": "you stopped the trial", "failed": "the trial failed"}.get(self.state, "")

    @abstractmethod
    def _measure(self) -> None:
        """Measure until there is an answer; `_stop` is set when the answer is not wanted any more."""

    def start(self) -> None:
        """Begin to measure, in the background."""
        self._thread = threading.Thread(target=self._run, name="accel-trial", daemon=True)
        self._thread.start()

    # --- for those who wait and watch -------------------------------------------------------------------------------

    def wait(self, timeout_s: float | None = None) -> Result:
        """Block until it is over and return the result; raises what made it fail. Ctrl-C stops the trial."""
        try:
            finished = self._everybody_knows.wait(timeout_s)
        except KeyboardInterrupt:
            self.stop()
            raise
        if not finished:
            raise TimeoutError(f"the trial is still {self.state} after {timeout_s} s")
        if self.error is not None:
            raise self.error
        return self.result

    def __await__(self) -> Generator[Any, None, Result]:
        return asyncio.get_running_loop().run_in_executor(None, self.wait).__await__()

    def stop(self) -> None:
        """End the trial and its workers at once; what was measured so far stays in the result."""
        with self._lock:
            is_first = not self._is_stopped and not self.is_over
            if is_first:
                self._is_stopped, self._stopped_at = True, self.budget.clock()
        if is_first:
            self._changed()  # "stopping…" is to be seen at once; a listener may call `stop` again
        with uninterrupted():  # a second interrupt must leave no worker that goes on
            self._end_what_runs()
        if self._thread is None:
            self._run()  # measures nothing, and lets go of the workload
        elif self._thread is not threading.current_thread():  # a listener may stop the trial
            self._over.wait(_ENDING_S)

    def _end_what_runs(self) -> None:
        self._stop.set()
        with self._lock:
            relaunch = self._relaunch
        if relaunch is not None:
            relaunch.end()

    def _time_is_up(self) -> None:
        """Whatever is waited for, workers that start or a compiler that works: it ends now."""
        if not self._over.is_set():
            self.is_out_of_time = True
            self._end_what_runs()

    @property
    def state(self) -> TrialState:
        """What it does, or how it ended: a trial that the user stopped says so at once, while its workers still end."""
        return "stopped" if self._is_stopped else self._state

    @property
    def goes_on(self) -> str:
        """The beat in a line, and how to stop it."""
        return str(self.beat) if self._is_stopped else f"{self.beat}. Interrupt stops it."

    @property
    def beat(self) -> Beat:
        """What it does now and for how long; how much of its time is gone."""
        phase = self.phases.phase or self.state
        if self._is_stopped:
            return Beat(
                self.called, "stopping…", self.budget.clock() - self._stopped_at, seconds=self.seconds
            )
        if phase == "measuring" and self.state == "confirming":
            phase = "confirming"
        at_most_s = self.budget.seconds if self.budget.seconds < math.inf else None
        return Beat(
            self.called,
            phase,
            self.phases.phase_s,
            self._detail,
            self.seconds,
            at_most_s,
            self.budget.is_strict,
        )

    @property
    def _detail(self) -> str:
        """What is known of the phase."""
        return self.phases.detail

    @property
    def line(self) -> str:
        """How it stands, and what can be done, in words."""
        return f"{self.called}: {self.state}. `await trial` or `trial.wait()` for the result, `trial.stop()` to end it."

    __repr__ = Shown.__str__

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back (from any thread) when the state or the result changed; returns how to unsubscribe."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback) if callback in self._listeners else None

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    @property
    def seconds(self) -> float:
        """How long it has been running, or took, from the command on."""
        return self._seconds if self.is_over else self.budget.used_s

    def _busy_lines(self, others: Sequence[OtherWork], widened: float | None = None) -> tuple[str, ...]:
        """That others or a quota had the CPUs, and what it cost; and which of the user's own notebooks did."""
        import torch

        threads = torch.get_num_threads()
        found = [
            Disturbance(
                each.share,
                each.cpus,
                threads,
                stopped=each.stopped,
                quota_cores=each.quota_cores,
            )
            for each in others
        ]
        dearest = worst(found, widened)
        return tuple(str(each) for each in (dearest, self.others_measuring.line) if each)

    # --- the run ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        state: TrialState = "done"
        alarm = Timer(min(max(self.budget.left_s, 0.0), threading.TIMEOUT_MAX), self._time_is_up)
        alarm.daemon = True
        if self.budget.is_strict:
            alarm.start()
        try:
            with in_words(self.command), self.others_measuring:
                self._measure()
        except BaseException as error:
            self.error = None if self._stop.is_set() else error
            state = "done" if self.is_out_of_time else "failed"
        finally:
            alarm.cancel()
            try:
                self.phases.enter("comparing")
                self._parcel.close()
                self._relaunch = None
                self._unchanged = " ".join(filter(None, [self._changed_files(), self._check()]))
            finally:  # whatever else went wrong: no caller may wait for ever
                self.phases.end()
                self._seconds = self.budget.used_s
                with self._lock:  # stopped before this, or not at all
                    self._state = state
                    self._over.set()
                try:
                    self._changed()
                finally:
                    self._everybody_knows.set()

    @property
    def _disk_notes(self) -> tuple[str, ...]:
        """What the user is to know of the disk that the cell writes to."""
        return tuple(filter(None, (note_of(each, self._files.folder) for each in sorted(self._disks))))

    def _changed_files(self) -> str:
        """Files of the folder that are not as they were; looked at also where the workers' disk is private, in case it is not."""
        changed = [name for name in self._files.changes() if not is_history(Path(self._files.folder, name))]
        if not changed:
            return ""
        more = f" and {len(changed) - 3} others" if len(changed) > 3 else ""
        what = f"{', '.join(map(one_line, changed[:3]))}{more}"
        if self._disks <= {"namespace"}:
            return f"Files changed during the trial, by something else (its own disk is private): {what}."
        return f"FILES CHANGED during the trial, by it or by something else: {what}."

    def _hold(self, relaunch: Relaunch) -> None:
        """Remember the workers that run now, so that `stop` can end them."""
        self.others_measuring.look()
        with self._lock:
            self._relaunch = relaunch
        relaunch.disks = self._disks
        if self._stop.is_set():
            relaunch.end()

    def _changed(self) -> None:
        for listener in list(self._listeners):
            try:
                listener()
            except Exception as error:  # a view that cannot draw must not cost the measurement
                warnings.warn(f"a listener of this trial raised {error!r}", stacklevel=2)
