"""Plans trained side by side from one seed after the other, each until it is good enough or for so many seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import msgspec

from accel.errors import AccelError
from accel.machine.peaks.other_work import OtherWork
from accel.measuring.time_to_quality import TimeToQuality
from accel.measuring.took import Took
from accel.measuring.training_curve import QualityRow, RowState
from accel.plans.plan import BASELINE, Plan
from accel.workers.messages import Load, QualityQuestion
from accel.workers.pool import WorkerPool
from accel.workers.quality_run import QualityRun
from accel.workers.quality_schedule import Goal, QualitySchedule
from accel.workers.relaunch import Relaunch
from accel.workers.time_budget import PhaseClock, TimeBudget
from accel.workers.trial_rows import why_failed
from accel.workers.variant_worker import GroupFactory, Variant, no_groups
from accel.workload.new_weights import Start
from accel.workload.shipping import Parcel


@dataclass(frozen=True)
class QualitySetting:
    """What is asked, and what a reader of the answer must know."""

    question: QualityQuestion
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


class QualitySeeds:
    """Trains the baseline and plans from each seed in turn; `result` is what is known at any time.

    >>> seeds = QualitySeeds(plans, setting, parcel, load, pool, hold=hold, stop=stop, on_change=changed, phases=phases)
    >>> seeds.run()

    `hold` remembers the workers, to end them. What goes wrong with the baseline is raised, with a plan it is in `errors`.
    """

    def __init__(
        self, plans: list[Plan], setting: QualitySetting, parcel: Parcel, load: Load, pool: WorkerPool, *,
        hold: Callable[[Relaunch], None], stop: threading.Event, on_change: Callable[[], None], phases: PhaseClock,
        groups: GroupFactory = no_groups,
    ) -> None:  # fmt: skip
        self.plans, self.setting, self._phases, self._hold = plans, setting, phases, hold
        self._parcel, self._load, self._pool, self._groups = parcel, load, pool, groups
        self._stop, self._changed = stop, on_change
        self.schedules: list[QualitySchedule] = []
        self.errors: dict[str, AccelError] = {}
        self.others: list[OtherWork] = []
        self.notes: list[str] = []
        self._proofs: dict[str, tuple[tuple[str, bool, str], ...]] = {}
        self._seeds_left_out = 0

    def run(self) -> None:
        """Seed by seed, each with its share of the time that is left."""
        budget = self.setting.budget
        while (missing := self.setting.seeds - len(self.schedules)) > 0 and self._may_tell:
            if self._stop.is_set() or self.all_failed or budget.is_up:
                break
            seed = len(self.schedules) + self._seeds_left_out
            self._train(seed, deadline=budget.clock() + budget.left_s / missing)

    @property
    def _may_tell(self) -> bool:
        """Whether another seed is worth trying: from the same weights all are as good, new ones may be so by chance."""
        return self._seeds_left_out <= (0 if self.setting.start == "same" else self.setting.seeds)

    @property
    def is_stopped(self) -> bool:
        """Whether the user stopped it, or the time is up."""
        return self._stop.is_set()

    @property
    def all_failed(self) -> bool:
        """Whether no plan is left to train."""
        return all(str(plan) in self.errors for plan in self.plans)

    def _train(self, seed: int, *, deadline: float) -> None:
        plans = [Plan(), *(plan for plan in self.plans if str(plan) not in self.errors)]
        variants = [Variant(plan, self.setting.allocator) for plan in plans]
        load = msgspec.structs.replace(
            self._load, quality=msgspec.structs.replace(self.setting.question, seed=seed)
        )
        run = QualityRun(
            self._pool, self._parcel, variants, load=load, timeout_s=self.setting.timeout_s, groups=self._groups,
            phases=self._phases,
        )  # fmt: skip
        self._hold(run)
        with run:
            self.errors |= {label: own.error for label, own in run.samples.items() if own.error is not None}
            schedule = QualitySchedule(
                run.trainees, self.setting.goal, seed=seed, deadline=deadline, stop=self._stop,
                clock=self.setting.budget.clock, on_change=self._changed,
            )  # fmt: skip
            self.schedules.append(schedule)
            self._phases.enter("training", f"seed {len(self.schedules)} of {self.setting.seeds}")
            self.others.append(run.others)
            with run.others:
                schedule.run()
            self.errors |= schedule.errors
            if schedule.met_at_once:
                self._leave_out(schedule)
            elif not self._stop.is_set():
                for variant in variants[1:]:
                    if variant.label not in self.errors:
                        self._proofs[variant.label] = run.proofs(variant.label)

    def _leave_out(self, schedule: QualitySchedule) -> None:
        """A model that is good enough before its first step tells nothing about plans: another seed takes its place."""
        self.schedules.remove(schedule)
        self._seeds_left_out += 1
        value = schedule.curves[BASELINE].last
        self.notes.append(
            f"Seed {schedule.seed} is left out: {self.setting.metric} is {value:.4g} before the first step."
        )

    def result(
        self, state: RowState, *, error: BaseException | None = None, more: Iterable[QualityRow] = (),
        notes: Iterable[str] = (), after: Iterable[str] = (), unchanged_line: str = "", took: Took | None = None,
    ) -> TimeToQuality:  # fmt: skip
        """What is known now: the baseline, the plans as they were named, then `more` rows."""
        setting, effects = (
            self.setting,
            {BASELINE: "exact", **{str(plan): plan.effect for plan in self.plans}},
        )
        places = {str(plan): plan.start.environment for plan in self.plans}
        rows = [
            replace(self._row(label, effect, state, error), environment=places.get(label, ""))
            for label, effect in effects.items()
        ]
        return TimeToQuality(
            rows=(*rows, *more), metric=setting.metric, metric_line=setting.metric_line,
            is_higher_better=setting.is_higher_better, target=setting.goal.target, train_s=setting.goal.train_s,
            machine_line=setting.machine_line, epoch_samples=setting.epoch_samples,
            notes=(*self.notes, *notes, *self._before_the_first_step(), *setting.notes, *after),
            unchanged_line=unchanged_line, took=took,
        )  # fmt: skip

    def _row(self, label: str, effect: str, state: RowState, error: BaseException | None) -> QualityRow:
        curves = tuple(s.curves[label] for s in list(self.schedules) if label in s.curves)
        error = self.errors.get(label) or error
        return QualityRow(
            label, effect, tuple(curve for curve in curves if curve.points or curve.steps), self._proofs.get(label, ()),
            state="failed" if error else state, error=why_failed(error) if error else "",
        )  # fmt: skip

    def _before_the_first_step(self) -> list[str]:
        """Where each seed began."""
        begun = [
            (schedule.seed, curve.points[0].value)
            for schedule in list(self.schedules)
            if (curve := schedule.curves[BASELINE]).points and not curve.points[0].steps
        ]
        if not begun:
            return []
        words = [f"{value:.4g} (seed {seed})" for seed, value in begun]
        return [f"{self.setting.metric} before the first step: {', '.join(words)}."]
