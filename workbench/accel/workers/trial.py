"""A trial: candidates against the baseline in worker processes, in the background, with a ladder that fills live."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from accel.accelerations.plan import Plan
from accel.errors import AccelError
from accel.measuring.comparison import Comparison
from accel.measuring.interval import DEFAULT_MALLOC_NOISE, STEADY_NOISE
from accel.measuring.ladder import Ladder, speed
from accel.workers.background_trial import BackgroundTrial, TrialState
from accel.workers.messages import Load
from accel.workers.pool import WorkerPool
from accel.workers.relaunch import Effort, Relaunch
from accel.workers.stage import Stage, StagePlan, Standing
from accel.workers.trial_rows import comparison_of, in_steady_worker, refused_row, why_failed
from accel.workers.variant_worker import GroupFactory, Variant, no_groups
from accel.workload.shipping import Parcel


@dataclass(frozen=True)
class TrialSetting:
    """Where a trial runs: what the notebook's allocator is, and how long things may take."""

    machine_line: str
    notes: tuple[str, ...]
    notebook_allocator: str  # what its processes are told to use: "steady", "set back" or "as the notebook"
    notebook_is_steady: bool  # its allocator is steady already (kept live, by environment, or not glibc)
    can_be_steady: bool
    timeout_s: float = 60.0
    budget_s: float = 240.0
    steady_relaunches: int = 4
    notebook_relaunches: int = 5
    effort: Effort = field(default_factory=Effort)


class Trial(BackgroundTrial[Ladder]):
    """Runs in the background from the moment it is made; wait for it, await it, watch it, or stop it.

    >>> trial = accel.try_("channels_last", wait=False)
    >>> trial.ladder            # what is known so far
    >>> trial.stop()            # or: trial.wait(), or: await trial
    """

    def __init__(
        self, plans: list[Plan], parcel: Parcel, load: Load, pool: WorkerPool, setting: TrialSetting, *,
        check: Callable[[], str] = lambda: "", refused: dict[str, str] | None = None, groups: GroupFactory = no_groups,
    ) -> None:  # fmt: skip
        super().__init__(parcel, check)
        self._groups = groups
        self.plans, self._load, self._pool, self._setting = plans, load, pool, setting
        self._refused = refused or {}
        self._stages: dict[str, Stage] = {}
        self._start()

    # --- the run ----------------------------------------------------------------------------------------------------

    def _raise_if_all_failed(self) -> None:
        """A plan that fails has its error in its row; when every plan did, the trial did."""
        errors = [self._error_of(plan) for plan in self.plans]
        if all(errors) and not self._stop.is_set():
            raise next(error for error in errors if error)

    def _error_of(self, plan: Plan) -> AccelError | None:
        standings = (self._standing("steady", in_steady_worker(plan)), self._standing("notebook", str(plan)))
        return next((standing.error for standing in standings if standing and standing.error), None)

    def _measure(self) -> None:
        deadline = time.monotonic() + self._setting.budget_s
        if (steady := self._steady_stage()) is not None:
            self._run_stage(steady, "measuring", deadline)
        notebook = self._notebook_stage()
        self._run_stage(notebook, "confirming" if self._stages else "measuring", deadline)
        self._raise_if_all_failed()

    def _run_stage(self, plan: StagePlan, state: TrialState, deadline: float) -> None:
        if not plan.candidates or self._stop.is_set():
            return
        self.state = state
        stage = self._stages[plan.name] = Stage(
            plan,
            self._open,
            stop=self._stop,
            on_change=self._changed,
            deadline=deadline,
            measures_floor=not self._stages,
        )
        self._changed()
        stage.run()

    def _steady_stage(self) -> StagePlan | None:
        setting = self._setting
        if setting.notebook_is_steady or not setting.can_be_steady:
            return None
        texts = list(dict.fromkeys(in_steady_worker(plan) for plan in self.plans))
        candidates = tuple((text, text) for text in texts if text)
        return StagePlan(
            "steady",
            "steady",
            candidates,
            STEADY_NOISE,
            setting.steady_relaunches,
            setting.effort,
            is_headline=False,
        )

    def _notebook_stage(self) -> StagePlan:
        setting = self._setting
        is_only_stage = "steady" not in self._stages and all(
            not plan.needs_own_process for plan in self.plans
        )
        steady = self._stages.get("steady")
        candidates = tuple(
            (str(plan), str(plan))
            for plan in self.plans
            if self._error_of(plan) is None  # what failed once is not run again
            and (
                plan.needs_own_process
                or steady is None
                or steady.standings[str(plan)].verdict != "no difference"
            )
        )
        allocator = setting.notebook_allocator
        if is_only_stage and setting.notebook_is_steady:
            return StagePlan(
                "notebook",
                allocator,
                candidates,
                STEADY_NOISE,
                setting.steady_relaunches,
                setting.effort,
                is_headline=False,
            )
        few = replace(
            setting.effort, least_rounds=12, most_rounds=30, seconds=min(setting.effort.seconds, 6.0)
        )
        return StagePlan(
            "notebook", allocator, candidates, DEFAULT_MALLOC_NOISE, setting.notebook_relaunches, few,
            is_headline=True, wide_is_fine=0.15,
        )  # fmt: skip

    def _open(self, variants: list[Variant]) -> Relaunch:
        relaunch = Relaunch(
            self._pool, self._parcel, variants, load=self._load, timeout_s=self._setting.timeout_s, groups=self._groups,
        )  # fmt: skip
        self._hold(relaunch)
        return relaunch

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def result(self) -> Ladder:
        """The ladder."""
        return self.ladder

    @property
    def ladder(self) -> Ladder:
        """A snapshot of what is known now, best plan first."""
        rows = [self._row(plan) for plan in self.plans]
        rows.sort(key=lambda row: -speed(row) if speed(row) == speed(row) else 0)
        timed = [row for row in rows if row.baseline_ms == row.baseline_ms]
        base = [row.baseline_ms for row in timed if row.headline] or [row.baseline_ms for row in timed]
        rows += [refused_row(plan, why) for plan, why in self._refused.items()]
        return Ladder(
            rows=tuple(rows),
            baseline_ms=sorted(base)[len(base) // 2] if base else float("nan"),
            machine_line=self._setting.machine_line,
            allocator_line=self._allocator_line(),
            notes=self._setting.notes,
            unchanged_line=self._unchanged,
        )

    def _row(self, plan: Plan) -> Comparison:
        label, failed = str(plan), self._error_of(plan)
        row = comparison_of(
            plan,
            self._standing("steady", in_steady_worker(plan)),
            self._standing("notebook", label),
            floor=next((stage.floor for stage in self._stages.values() if stage.floor), []),
        )
        return replace(
            row,
            state="failed" if failed else self._row_state(),
            error=why_failed(failed) if failed else "",
            details={"rounds_now": max((stage.rounds_now for stage in self._stages.values()), default=0)},
        )

    def _standing(self, stage: str, label: str) -> Standing | None:
        return self._stages[stage].standings.get(label) if stage in self._stages else None

    def _row_state(self) -> Literal["waiting", "measuring", "confirming", "done", "stopped", "failed"]:
        return "waiting" if self.state == "starting" else self.state

    def _allocator_line(self) -> str:
        if self._setting.notebook_is_steady:
            return "Allocator: steady in this notebook already, so in every process of this trial too."
        if not self._setting.can_be_steady:
            return "Allocator: the system's own in every process (no steady setting is known for it)."
        return (
            "Allocator: the headline holds for this notebook as it runs (glibc's default malloc), over relaunches; "
            "plans are told apart under a steady allocator, which is tighter."
        )
