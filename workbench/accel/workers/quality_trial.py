"""A trial by quality: every plan is trained from each seed until it is good enough, or for so many seconds."""

from __future__ import annotations

from collections.abc import Callable

from accel.errors import AccelError, Reason, in_words
from accel.measuring.time_to_quality import TimeToQuality
from accel.measuring.took import Took
from accel.measuring.training_curve import QualityRow, RowState
from accel.plans.plan import Plan
from accel.workers.background_trial import BackgroundTrial
from accel.workers.messages import Load
from accel.workers.pool import WorkerPool
from accel.workers.quality_seeds import QualitySeeds, QualitySetting
from accel.workers.variant_worker import GroupFactory, no_groups
from accel.workload.shipping import Parcel

_ROW_STATES: dict[str, RowState] = {
    "starting": "waiting",
    "done": "done",
    "stopped": "stopped",
    "failed": "failed",
}


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
        self.plans, self._setting, self._refused = plans, setting, refused or {}
        self._seeds = QualitySeeds(
            plans, setting, parcel, load, pool, hold=self._hold, stop=self._stop, on_change=self._changed,
            phases=self.phases, groups=groups,
        )  # fmt: skip

    def _measure(self) -> None:
        setting, seeds = self._setting, self._seeds
        self._state = "measuring"
        seeds.run()
        if 0 < len(seeds.schedules) < setting.seeds and self.budget.is_up and not self._is_stopped:
            self._note_seeds()
        if seeds.all_failed and not self._stop.is_set():
            raise next(iter(seeds.errors.values()))
        if not (seeds.schedules or self._stop.is_set() or self.budget.is_up):
            raise AccelError(
                f"--until {setting.goal.target}",
                because=f"the model reaches this target before its first step. {' '.join(seeds.notes)}",
                do="Set a harder target."
                if setting.start == "new"
                else "Set a harder target, build the model again in its own cell, or add --start new.",
            )

    def _note_seeds(self) -> None:
        self._seeds.notes.append(
            f"{len(self._seeds.schedules)} of {self._setting.seeds} seeds: the {self.budget.seconds:.0f} s were up; "
            "--budget-s gives more."
        )

    def _took(self) -> Took:
        ended_by = self._ended_early or "all seeds are trained"
        endings = {curve.ending for each in list(self._seeds.schedules) for curve in each.curves.values()}
        if self.state == "done" and (self.budget.is_up or self.is_out_of_time or "out of time" in endings):
            ended_by = "the time was up"
        return Took(self.seconds, self.budget.asked_s, self.phases.spent, ended_by, began=self.began)

    @property
    def result(self) -> TimeToQuality:
        """A snapshot of what is known now: the baseline, then the plans as they were named."""
        refused = [
            QualityRow(plan, "exact", state="not applicable", error=in_words(reasons))
            for plan, reasons in self._refused.items()
        ]
        return self._seeds.result(
            _ROW_STATES.get(self.state, "training"), error=self.error, more=refused,
            notes=self._busy_lines(self._seeds.others), after=self._disk_notes, unchanged_line=self._unchanged,
            took=self._took(),
        )  # fmt: skip
