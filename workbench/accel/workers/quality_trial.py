"""A trial by quality: every plan is trained from each seed until it is good enough, or for so many seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from accel.errors import AccelError, Reason, in_words
from accel.machine.peaks.other_work import OtherWork
from accel.measuring.time_to_quality import TimeToQuality
from accel.measuring.took import Took
from accel.measuring.training_curve import QualityRow, RowState
from accel.plans.plan import BASELINE, Plan
from accel.workers.background_trial import BackgroundTrial
from accel.workers.messages import Load, QualityQuestion
from accel.workers.pool import WorkerPool
from accel.workers.quality_run import QualityRun
from accel.workers.quality_schedule import Goal, QualitySchedule
from accel.workers.time_budget import TimeBudget
from accel.workers.trial_rows import why_failed
from accel.workers.variant_worker import GroupFactory, Variant, no_groups
from accel.workload.new_weights import Start
from accel.workload.shipping import Parcel


@dataclass(frozen=True)
class QualitySetting:
    """What is asked, and what a reader of the answer must know."""

    goal: Goal
    seeds: int
    metric: str
    metric_line: str
    is_higher_better: bool
    machine_line: str
    allocator: str  # of all processes: as the notebook runs
    start: Start = "new"
    notes: tuple[str, ...] = ()
    epoch_samples: int | None = None
    timeout_s: float = 60.0
    budget: TimeBudget = field(default_factory=lambda: TimeBudget(usual_s=600.0))


class QualityTrial(BackgroundTrial[TimeToQuality]):
    """Runs in the background; wait for it, await it, watch it, or stop it.

    >>> trial = accel.try_("batch_size", until="accuracy>=0.95", wait=False)
    >>> trial.result            # what is known so far
    """

    def __init__(
        self, plans: list[Plan], parcel: Parcel, load: Load, pool: WorkerPool, setting: QualitySetting, *,
        check: Callable[[], str] = lambda: "", refused: dict[str, list[Reason]] | None = None,
        groups: GroupFactory = no_groups,
    ) -> None:  # fmt: skip
        super().__init__(parcel, check, setting.budget)
        self._groups = groups
        self.plans, self._load, self._pool, self._setting = plans, load, pool, setting
        self._refused = refused or {}
        self._schedules: list[QualitySchedule] = []
        self._proofs: dict[str, tuple[tuple[str, bool, str], ...]] = {}
        self._errors: dict[str, AccelError] = {}
        self._seeds_left_out = 0
        self._notes: list[str] = []
        self._others: list[OtherWork] = []

    def _measure(self) -> None:
        setting = self._setting
        self._state = "measuring"
        while (missing := setting.seeds - len(self._schedules)) > 0 and self._may_tell:
            if self._stop.is_set() or self._all_failed or self.budget.is_up:
                break
            seed = len(self._schedules) + self._seeds_left_out
            self._train(seed, deadline=time.monotonic() + self.budget.left_s / missing)
        if 0 < len(self._schedules) < setting.seeds and self.budget.is_up and not self._is_stopped:
            self._note_seeds()
        if self._all_failed and not self._stop.is_set():
            raise next(iter(self._errors.values()))
        if not (self._schedules or self._stop.is_set() or self.budget.is_up):
            raise AccelError(
                f"--until {setting.goal.target}",
                because=f"the model reaches this target before its first step. {' '.join(self._notes)}",
                do="Set a harder target."
                if setting.start == "new"
                else "Set a harder target, build the model again in its own cell, or add --start new.",
            )

    def _note_seeds(self) -> None:
        self._notes.append(
            f"{len(self._schedules)} of {self._setting.seeds} seeds: the {self.budget.seconds:.0f} s were up; "
            "--budget-s gives more."
        )

    def _took(self) -> Took:
        ended = {"done": "all seeds are trained", "stopped": "you stopped it", "failed": "it failed"}
        ended_by = ended.get(self.state, "it goes on")
        endings = {curve.ending for each in list(self._schedules) for curve in each.curves.values()}
        if self.state == "done" and (self.budget.is_up or self.is_out_of_time or "out of time" in endings):
            ended_by = "the time was up"
        return Took(self.seconds, self.budget.asked_s, self.phases.spent, ended_by)

    @property
    def _may_tell(self) -> bool:
        """Whether another seed is worth trying: from the same weights all are as good, new ones may be so by chance."""
        return self._seeds_left_out <= (0 if self._setting.start == "same" else self._setting.seeds)

    @property
    def _all_failed(self) -> bool:
        return all(str(plan) in self._errors for plan in self.plans)

    def _train(self, seed: int, *, deadline: float) -> None:
        plans = [Plan(), *(plan for plan in self.plans if str(plan) not in self._errors)]
        variants = [Variant(plan, self._setting.allocator) for plan in plans]
        load = msgspec.structs.replace(self._load, quality=self._question(seed))
        run = QualityRun(
            self._pool,
            self._parcel,
            variants,
            load=load,
            timeout_s=self._setting.timeout_s,
            groups=self._groups,
            phases=self.phases,
        )
        self._hold(run)
        with run:
            self._errors |= {label: own.error for label, own in run.samples.items() if own.error is not None}
            schedule = QualitySchedule(
                run.trainees,
                self._setting.goal,
                seed=seed,
                deadline=deadline,
                stop=self._stop,
                on_change=self._changed,
            )
            self._schedules.append(schedule)
            self.phases.enter("training", f"seed {len(self._schedules)} of {self._setting.seeds}")
            self._others.append(run.others)
            with run.others:
                schedule.run()
            self._errors |= schedule.errors
            if schedule.met_at_once:
                self._leave_out(schedule)
            elif not self._stop.is_set():
                for variant in variants[1:]:
                    if variant.label not in self._errors:
                        self._proofs[variant.label] = run.proofs(variant.label)

    def _question(self, seed: int) -> QualityQuestion:
        assert self._load.quality is not None
        return msgspec.structs.replace(self._load.quality, seed=seed)

    def _leave_out(self, schedule: QualitySchedule) -> None:
        """A model that is good enough before its first step tells nothing about plans: another seed takes its place."""
        self._schedules.remove(schedule)
        self._seeds_left_out += 1
        value = schedule.curves[BASELINE].last
        self._notes.append(
            f"Seed {schedule.seed} is left out: {self._setting.metric} is {value:.4g} before the first step."
        )

    @property
    def result(self) -> TimeToQuality:
        """A snapshot of what is known now: the baseline, then the plans as they were named."""
        setting = self._setting
        rows = [self._row(BASELINE, "exact"), *(self._row(str(plan), plan.effect) for plan in self.plans)]
        rows += [
            QualityRow(plan, "exact", state="not applicable", error=in_words(reasons))
            for plan, reasons in self._refused.items()
        ]
        return TimeToQuality(
            rows=tuple(rows), metric=setting.metric, metric_line=setting.metric_line,
            is_higher_better=setting.is_higher_better, target=setting.goal.target, train_s=setting.goal.train_s,
            machine_line=setting.machine_line, epoch_samples=setting.epoch_samples,
            notes=(
                *self._notes, *self._busy_lines(self._others), *self._before_the_first_step(), *setting.notes,
                *self._disk_notes,
            ),
            unchanged_line=self._unchanged,
            took=self._took(),
        )  # fmt: skip

    def _row(self, label: str, effect: str) -> QualityRow:
        curves = tuple(s.curves[label] for s in list(self._schedules) if label in s.curves)
        error = self._errors.get(label) or self.error
        return QualityRow(
            label, effect, tuple(curve for curve in curves if curve.points or curve.steps), self._proofs.get(label, ()),
            state="failed" if error else self._row_state(), error=why_failed(error) if error else "",
        )  # fmt: skip

    def _row_state(self) -> RowState:
        states: dict[str, RowState] = {
            "starting": "waiting",
            "done": "done",
            "stopped": "stopped",
            "failed": "failed",
        }
        return states.get(self.state, "training")

    def _before_the_first_step(self) -> list[str]:
        """Where each seed began."""
        begun = [
            (schedule.seed, curve.points[0].value)
            for schedule in list(self._schedules)
            if (curve := schedule.curves[BASELINE]).points and not curve.points[0].steps
        ]
        if not begun:
            return []
        words = [f"{value:.4g} (seed {seed})" for seed, value in begun]
        return [f"{self._setting.metric} before the first step: {', '.join(words)}."]
