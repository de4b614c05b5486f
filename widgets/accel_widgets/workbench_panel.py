"""The workbench as a panel: a bar, and below it three tabs: the profile, what speeds it up, the machine. All live."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets

from accel.accelerations import CATALOGUE
from accel.errors import AccelError
from accel.html_parts import text as escaped
from accel.measuring.trials_compared import trials_compared
from accel.plans.plan import Plan
from accel_widgets.after_keep import AfterKeep
from accel_widgets.bar_panel import TABS, BarPanel
from accel_widgets.board_panel import BoardPanel
from accel_widgets.calm_updates import CalmUpdates
from accel_widgets.core_map_panel import CoreMapPanel
from accel_widgets.ddp_lanes_panel import DdpLanesPanel
from accel_widgets.environment_line import EnvironmentLine
from accel_widgets.error_line import ErrorLine
from accel_widgets.jobs_panel import JobsPanel
from accel_widgets.ladder_panel import LadderPanel
from accel_widgets.looks_while_seen import LooksWhileSeen
from accel_widgets.main_thread import call_when_idle, hear_while_busy, in_main_thread
from accel_widgets.op_table_panel import OpTablePanel
from accel_widgets.phase_bar_panel import PhaseBarPanel
from accel_widgets.profile_view import headline, op_rows, phase_bar
from accel_widgets.static_panel import SavedPanel, static_panel
from accel_widgets.telemetry_panel import TelemetryPanel
from accel_widgets.theme import themed
from accel_widgets.timeline_panel import TimelinePanel
from accel_widgets.trial_view import ShownTrials
from accel_widgets.what_goes_on import does_run, what_interrupt_does, what_runs

if TYPE_CHECKING:
    from accel.accelerations.acceleration import Acceleration
    from accel.errors import Reason
    from accel.measuring.ladder import Ladder
    from accel.measuring.time_to_quality import TimeToQuality
    from accel.measuring.tuning import Tuning
    from accel.workbench import Workbench

WAITING = "This will be done when the running cell is over."
NOTHING_ON = "Switch on what you want to measure together, or press Tune to search among all."
EVERYTHING = ("profile", "kept", "trial", "ranks")
CHANGES_REASONS = ("profile", "kept", "environments")
BEAT_S, UPDATES_PER_S, ASKING_S, PAINTED_S = 1.0, 20.0, 0.05, 0.5


class WorkbenchPanel(SavedPanel, ipywidgets.VBox):
    """The live panel of a workbench; the engine does the work, the panel shows it and passes clicks on.

    >>> panel = WorkbenchPanel(workbench)        # %accel panel shows it
    >>> panel.board.chosen = {"channels_last": {}}
    >>> panel.close()                            # it listens no more

    `on_over` is called at the end of a trial that a click began: what it is called, its result, its seconds.
    """

    def __init__(
        self, workbench: Workbench, *, on_over: Callable[[str, object, float], object] = lambda *_: None
    ) -> None:
        self.workbench, self._on_over = workbench, on_over
        self._stale, self._lock = set(EVERYTHING), threading.Lock()
        self._is_board_awaited = False
        self._asking: Iterator[None] = iter(())
        self._reported: set[int] = set()
        self._begun: set[object] = set()  # trials that a click began
        self._shown = ShownTrials()
        self.errors = ErrorLine()
        self.environment_line = EnvironmentLine(on_made=self._draw_board_when_idle, errors=self.errors)
        self.bar = BarPanel(
            self._calls(), on_copy=self._when_idle(self._copy_plan), on_seen=self._page_said
        )  # fmt: skip
        self._beating = LooksWhileSeen(
            lambda: self._updates.draw_now(self._draw_beat),
            gap_s=BEAT_S,
            is_wanted=lambda: does_run(self.workbench),
        )
        self.phase_bar, self.op_table, self.timeline = PhaseBarPanel(), OpTablePanel(), TimelinePanel()
        self.after_keep = AfterKeep()
        self.board = BoardPanel(
            CATALOGUE, why_not=self._why_not, on_try=self._when_idle(self._try),
            on_make=self.environment_line.make, on_change=lambda: self._updates.draw_now(self._draw_plan),
        )  # fmt: skip
        self.ladder = LadderPanel(
            on_keep=self._when_idle(workbench.keep),
            on_copy=self.errors.guard(self._copy_trial),
            compare=self._compared,
        )
        self.ranks, self.telemetry = DdpLanesPanel(has_fold=True), TelemetryPanel()
        self.cores, self.jobs = CoreMapPanel(looks_now=False), JobsPanel()
        self._links = [
            ipywidgets.jslink((self.phase_bar, "phase"), (self.op_table, "phase")),
            ipywidgets.jslink((self.op_table, "chosen_op"), (self.timeline, "chosen_op")),
        ]
        super().__init__(self._parts(), _dom_classes=("accel", "accel-workbench"))
        self._updates = CalmUpdates(self.errors.guard(self._draw, clears=False), per_second=UPDATES_PER_S)
        self._unsubscribe = workbench.subscribe(self._changed)
        self._updates.draw_now()
        if self.ladder.trials:
            self.bar.turn_to("speed_up")
        # That takes seconds the first time. Kernel and page may share few cores: the panel is painted before.
        self._draw_board_when_idle(after_s=PAINTED_S)

    def close(self) -> None:
        """Take the panel off the page and stop listening."""
        self._unsubscribe()
        self._beating.close()
        self._updates.close()
        for link in self._links:
            link.close()
        for part in self.children:
            for child in getattr(part, "children", ()):
                child.close()
            part.close()
        super().close()

    def _stand_in(self) -> dict[str, str]:
        return static_panel(self.workbench)

    def _parts(self) -> list[ipywidgets.Widget]:
        style = ipywidgets.HTML(f"<style>{themed('workbench_panel.css')}</style>", layout={"display": "none"})
        line = ipywidgets.HTML(escaped(self.workbench.machine.line), _dom_classes=("accel-machine-line",))
        tabs = {
            "profile": [self.phase_bar, self.after_keep, self.op_table, self.timeline],
            "speed_up": [self.board, self.after_keep, self.ladder],  # where Keep is pressed, too
            "machine": [line, self.ranks, self.jobs, self.cores, self.telemetry],
        }
        boxes = [
            ipywidgets.VBox(parts, _dom_classes=("accel-tab", f"accel-tab-{name}"))
            for name, parts in tabs.items()
        ]
        return [style, self.bar, self.errors, self.environment_line, *boxes]

    # --- what a click calls -----------------------------------------------------------------------------------------

    def _calls(self) -> dict[str, Callable[[], object]]:
        return {
            "try": self._when_idle(lambda: self._try(str(self.board.plan))),
            "try_each": self._when_idle(lambda: self._try(*self.board.plans_of_each)),
            "tune": self._when_idle(lambda: self._begun.add(self.workbench.tune(wait=False))),
            "stop": self.errors.guard(self._stop),
            "undo": self._when_idle(self.workbench.undo),
        }

    def _try(self, *plans: str) -> None:
        self._begun.add(self.workbench.try_(*plans, wait=False))

    def _copy_plan(self, to: object) -> None:
        self.bar.copied(str(self.workbench.export().code), to)

    def _copy_trial(self, trial_id: str, form: str, to: object) -> None:
        """A trial's table, for an issue or a spreadsheet."""
        result = self._result(trial_id)
        table = result.to_csv() if form == "csv" else result.to_markdown()
        self.bar.copied(table, to)

    def _compared(self, first: str, second: str, names: tuple[str, str]) -> str:
        """In a line, which says if only one is of the present cell."""
        line = trials_compared(self._result(first), self._result(second), names)
        numbers = zip((first, second), names, strict=True)
        earlier = [name for trial_id, name in numbers if _index(trial_id) < self.workbench.first_trial]
        return f"{line} {earlier[0]} is of another cell." if len(earlier) == 1 else line

    def _result(self, trial_id: str) -> Ladder | TimeToQuality | Tuning:
        return self.workbench.trials[_index(trial_id)].result

    def _why_not(self, entry: Acceleration) -> Sequence[Reason]:
        """The engine's reasons for an entry as its knobs are turned."""
        return self.workbench.why_not(entry)

    def _stop(self) -> None:
        """From whichever thread the click arrives in: a running cell must not hold it up."""
        if (trial := self.workbench.running_trial) is not None:
            trial.stop()
        elif (run := self.workbench.ranks.latest) is not None:
            run.stop()

    def _when_idle(self, action: Callable[..., object]) -> Callable[..., None]:
        """The action between two cells of the notebook, its errors shown here."""

        def clicked(*given: Any) -> None:
            if not in_main_thread(lambda: self.errors.guard(action)(*given)):
                self.errors.tell(WAITING)

        return clicked

    def _page_said(self, message: object) -> None:
        """It shows the bar, or no longer; the first word since something began says that Stop will be heard."""
        self._beating.told(message)
        if self.bar.beat and not self.bar.beat["can_stop"]:
            self._updates.draw_now(self._draw_beat)

    # --- what the engine tells --------------------------------------------------------------------------------------

    def _changed(self, what: str) -> None:
        """Called by the engine, from any thread."""
        with self._lock:
            self._stale.add(what)
        self._updates.request()
        self._beating.again()
        if what in CHANGES_REASONS:
            self._draw_board_when_idle()

    def _draw_board_when_idle(self, *, after_s: float = 0.0) -> None:
        """Between two cells, once, however often it is asked for until then."""
        with self._lock:
            is_awaited, self._is_board_awaited = self._is_board_awaited, True
        if not is_awaited:
            call_when_idle(self._draw_board, after_s=after_s)

    def _draw_board(self) -> None:
        """In the thread that trains, while it does not: reasons read the user's objects.

        Another thread that reads a parameter's `.grad` during a backward pass corrupts the heap (torch 2.14): the kernel dies.
        """
        with self._lock:
            self._is_board_awaited = False
        profile, kept = self.workbench.profile_result, self.workbench.kept.names
        self._asking = self.board.asking(kept=kept, findings=profile.findings if profile else ())
        self._ask_on(self._asking)

    def _ask_on(self, asking: Iterator[None]) -> None:
        """Some entries more; a cell that waits to be run goes before the rest."""

        def ask_some() -> None:
            until = time.monotonic() + ASKING_S
            for _ in asking:
                if time.monotonic() > until:
                    call_when_idle(lambda: self._ask_on(asking))
                    return

        if asking is self._asking:  # else it is asked anew
            self._updates.draw_now(self.errors.guard(ask_some, clears=False))

    def _draw(self) -> None:
        """Draw what became stale since the last drawing, in any thread: of results, which are data only."""
        with self._lock:
            stale, self._stale = self._stale, set()
        if "profile" in stale:
            self._draw_profile()
        if stale & {"profile", "kept"}:
            self.after_keep.show(self.workbench)
        if "ranks" in stale and (run := self.workbench.ranks.latest) is not None:
            self.ranks.show(run)
            self.jobs.look_again()  # it may be one
        self._draw_trials()
        self._draw_beat()
        self._draw_plan()
        if stale - {"ranks"} and self.workbench.running_trial is None:
            self.save_again()

    def _draw_profile(self) -> None:
        profile = self.workbench.profile_result
        with self.phase_bar.hold_sync(), self.op_table.hold_sync():
            for name, value in {**phase_bar(profile), "phase": ""}.items():
                setattr(self.phase_bar, name, value)
            self.op_table.phase, self.op_table.chosen_op, self.op_table.rows = "", {}, op_rows(profile)
        self.timeline.show(profile)
        findings = profile.findings if profile is not None else ()
        self.board.show_findings(findings)
        self.bar.headline = headline(profile) if profile is not None else ""
        self.bar.tabs = {**TABS, "speed_up": f"{TABS['speed_up']} ({len(findings)})"} if findings else TABS
        if findings:
            self.bar.turn_to("speed_up")

    def _draw_trials(self) -> None:
        kept = _words(self.workbench.kept)
        self.ladder.trials = self._shown.newest_first(
            self.workbench.trials, kept=kept, first=self.workbench.first_trial
        )
        for number, trial in enumerate(self.workbench.trials):
            if trial.error is not None and trial.is_over and number not in self._reported:
                self._reported.add(number)
                self.errors.show(trial.error)
        self._tell_page()
        hear_while_busy(self.ladder)  # Keep, Pin and Copy, while a cell runs

    def _tell_page(self) -> None:
        """A notice at the end of a trial that a click began; a cell that waits for its trial gives its own."""
        for trial in self.workbench.trials[-1:]:
            if trial in self._begun and trial.is_over and trial.error is None:
                self._begun.discard(trial)
                self._on_over(trial.called, trial.result, trial.seconds)

    def _draw_beat(self) -> None:
        self.bar.show_beat(what_runs(self.workbench), interrupt=what_interrupt_does(self.workbench))
        hear_while_busy(self.bar)  # Stop, while a cell runs

    def _draw_plan(self) -> None:
        """What is switched on, and what of the bar can be clicked."""
        kept, is_busy = _words(self.workbench.kept), does_run(self.workbench)
        plan, problem = Plan(()), ""
        try:
            plan = self.board.plan
        except AccelError as error:
            problem = f"✗ {error}"
        can = [] if is_busy else ["tune"]
        if plan and not is_busy:
            can += ["try", "try_each"] if len(plan.entries) > 1 else ["try"]
        with self.bar.hold_sync():
            self.bar.plan, self.bar.hint, self.bar.is_problem = (
                _words(plan),
                problem or NOTHING_ON,
                bool(problem),
            )
            self.bar.can, self.bar.live = [*can, "undo", "copy"] if kept else can, kept
        self.board.is_busy = is_busy
        hear_while_busy(self.bar)
        hear_while_busy(self.board)  # switches too, while a cell runs


def _index(trial_id: str) -> int:
    """Which of the workbench's trials the page means."""
    return int(trial_id.removeprefix("trial-")) - 1


def _words(plan: Plan) -> str:
    """The plan; nothing for the empty one."""
    return str(plan) if plan else ""
