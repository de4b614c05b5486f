"""The workbench as a panel: where a step goes, its operations, timeline, toggles, trials, ranks, cores and load, all live."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import ipywidgets

from accel.accelerations import CATALOGUE
from accel.html_parts import text as escaped
from accel_widgets.calm_updates import CalmUpdates
from accel_widgets.core_map_panel import CoreMapPanel
from accel_widgets.ddp_lanes_panel import DdpLanesPanel
from accel_widgets.environment_line import EnvironmentLine
from accel_widgets.error_line import ErrorLine
from accel_widgets.ladder_panel import LadderPanel
from accel_widgets.live_line import LiveLine
from accel_widgets.main_thread import call_when_idle, in_main_thread
from accel_widgets.op_table_panel import OpTablePanel
from accel_widgets.phase_bar_panel import PhaseBarPanel
from accel_widgets.profile_view import op_rows, phase_bar
from accel_widgets.shared_looks import looks, shared
from accel_widgets.static_panel import SavedPanel, static_panel
from accel_widgets.telemetry_panel import TelemetryPanel
from accel_widgets.theme import themed
from accel_widgets.timeline_panel import TimelinePanel
from accel_widgets.toggle_board import ToggleBoard
from accel_widgets.trial_view import trials_shown

if TYPE_CHECKING:
    from accel.accelerations.acceleration import Acceleration
    from accel.errors import Reason
    from accel.workbench import Workbench

TRIAL_RUNS = "A trial is running; press Stop below to end it."
RANKS_TRAIN = "Ranks are training; wait for them, or stop them in their own part of this panel."
WAITING = "This will be done when the running cell is over."
EVERYTHING = ("profile", "kept", "trial", "ranks")
CHANGES_REASONS = ("profile", "kept", "environments")


class WorkbenchPanel(SavedPanel, ipywidgets.VBox):
    """The live panel of a workbench; the engine does the work, the panel shows it and passes clicks on.

    >>> panel = WorkbenchPanel(workbench)        # %accel panel shows it
    >>> panel.board.rows["channels_last"].switch.value = True
    >>> panel.board.try_button.click()
    >>> panel.close()                            # it listens no more
    """

    def __init__(self, workbench: Workbench) -> None:
        self.workbench = workbench
        self._stale, self._lock = set(EVERYTHING), threading.Lock()
        self._is_board_awaited = False
        self._reported: set[int] = set()
        self.errors = ErrorLine()
        self.environment_line = EnvironmentLine(on_made=self._draw_board_when_idle, errors=self.errors)
        self.phase_bar, self.op_table = PhaseBarPanel(), OpTablePanel()
        self.timeline, self.cores = TimelinePanel(), CoreMapPanel(is_open=False)
        self.board = ToggleBoard(
            on_try=self._when_idle(self._try), on_tune=self._when_idle(self._tune), why_not=self._why_not,
            on_make=self.environment_line.make, errors=self.errors,
        )  # fmt: skip
        self.live_line = LiveLine(on_undo=self._when_idle(workbench.undo))
        self.ladder = LadderPanel(
            on_stop=self.errors.guard(self._stop), on_keep=self._when_idle(workbench.keep)
        )
        self.ranks, self.telemetry = DdpLanesPanel(has_fold=True), TelemetryPanel()
        self._phase_link = ipywidgets.jslink((self.phase_bar, "phase"), (self.op_table, "phase"))
        super().__init__(self._parts(), **looks(ipywidgets.VBox, "accel accel-workbench"))
        self._updates = CalmUpdates(self.errors.guard(self._draw, clears=False))
        self._unsubscribe = workbench.subscribe(self._changed)
        self._updates.draw_now()
        self._draw_board()

    def close(self) -> None:
        """Take the panel off the page and stop listening."""
        self._unsubscribe()
        self._updates.close()
        self._phase_link.close()
        for child in self.children:
            child.close()
        super().close()

    def _stand_in(self) -> dict[str, str]:
        return static_panel(self.workbench)

    def _parts(self) -> list[ipywidgets.Widget]:
        style = ipywidgets.HTML(f"<style>{themed('workbench_panel.css')}</style>", layout={"display": "none"})
        line = f"<span>{escaped(self.workbench.machine.line)}</span>"
        machine = shared(ipywidgets.HTML, line, classes="accel-machine-line")
        return [
            style, self.phase_bar, self.op_table, self.timeline, self.board, self.environment_line, self.errors,
            self.live_line, self.ladder, self.ranks, self.cores, self.telemetry, machine,
        ]  # fmt: skip

    # --- what a click calls -----------------------------------------------------------------------------------------

    def _try(self, *plans: str) -> None:
        self.workbench.try_(*plans, wait=False)

    def _tune(self) -> None:
        self.workbench.tune(wait=False)

    def _why_not(self, entry: Acceleration) -> Sequence[Reason]:
        """The engine's reasons for an entry as its knobs are turned."""
        return self.workbench.why_not(entry)

    def _stop(self) -> None:
        """From whichever thread the click arrives in: a running cell must not hold it up."""
        if (trial := self.workbench.running_trial) is not None:
            trial.stop()

    def _when_idle(self, action: Callable[..., object]) -> Callable[..., None]:
        """The action between two cells of the notebook, its errors shown here."""

        def clicked(*given: str) -> None:
            if not in_main_thread(lambda: self.errors.guard(action)(*given)):
                self.errors.tell(WAITING)

        return clicked

    # --- what the engine tells --------------------------------------------------------------------------------------

    def _changed(self, what: str) -> None:
        """Called by the engine, from any thread."""
        with self._lock:
            self._stale.add(what)
        self._updates.request()
        if what in CHANGES_REASONS:
            self._draw_board_when_idle()

    def _draw_board_when_idle(self) -> None:
        """Between two cells, once, however often it is asked for until then."""
        with self._lock:
            is_awaited, self._is_board_awaited = self._is_board_awaited, True
        if not is_awaited:
            call_when_idle(self._draw_board)

    def _draw_board(self) -> None:
        """In the thread that trains, while it does not: reasons read the user's objects.

        Another thread that reads a parameter's `.grad` during a backward pass corrupts the heap (torch 2.14): the kernel dies.
        """
        with self._lock:
            self._is_board_awaited = False
        show = self.errors.guard(self.board.show, clears=False)
        self._updates.draw_now(lambda: show(CATALOGUE, self.workbench.kept.names))

    def _draw(self) -> None:
        """Draw what became stale since the last drawing, in any thread: of results, which are data only."""
        with self._lock:
            stale, self._stale = self._stale, set()
        if "profile" in stale:
            self._draw_profile()
        if "ranks" in stale and (run := self.workbench.ranks.latest) is not None:
            self.ranks.show(run)
        self._draw_trials()

    def _draw_profile(self) -> None:
        profile = self.workbench.profile_result
        with self.phase_bar.hold_sync(), self.op_table.hold_sync():
            for name, value in {**phase_bar(profile), "phase": ""}.items():
                setattr(self.phase_bar, name, value)
            self.op_table.phase, self.op_table.rows = "", op_rows(profile)
        self.timeline.show(profile)

    def _draw_trials(self) -> None:
        kept = str(self.workbench.kept) if self.workbench.kept else ""
        is_running = self.workbench.running_trial is not None
        with self.ladder.hold_sync():
            self.ladder.trials = trials_shown(self.workbench.trials, kept=kept)
            self.ladder.is_running = is_running
        self.live_line.show(kept)
        self.board.set_busy(TRIAL_RUNS if is_running else RANKS_TRAIN if self.ranks.is_running else "")
        for number, trial in enumerate(self.workbench.trials):
            if trial.error is not None and trial.is_over and number not in self._reported:
                self._reported.add(number)
                self.errors.show(trial.error)
