"""The proof of plans that change training: they and the best plan that does not are trained from several seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from accel.errors import AccelError
from accel.measuring.equal_quality import EqualQuality
from accel.plans.plan import BASELINE, Plan
from accel.workers.quality_schedule import Goal
from accel.workers.quality_seeds import QualitySeeds, QualitySetting
from accel.workers.relaunch_estimate import SHIPPING_S
from accel.workers.trial_rows import why_failed

EVALUATING_TOO = 2.0  # evaluating takes as long as training at most (`quality_schedule.py`)
LEAST_STEPS, LEAST_S = 20, 0.5  # of a training: less tells nothing of it
SPARE = 0.9  # of the time: the rest is for turns that end late


class QualityProof:
    """Trains plans, and others that leave training as it is, for equal seconds; `results` are what is known at any time.

    >>> proof = QualityProof([plan], [], make_seeds, setting, keep_quality=0.0)
    >>> proof.run(step_s=0.02, start_s=3.0); proof.results(is_over=True)[str(plan)].is_proven
    """

    def __init__(
        self, plans: list[Plan], others: list[Plan], make_seeds: Callable[[list[Plan], QualitySetting], QualitySeeds],
        setting: QualitySetting, *, keep_quality: float,
    ) -> None:  # fmt: skip
        self.plans, self.others = plans, others
        self._make_seeds, self._setting, self._keep_quality = make_seeds, setting, keep_quality
        self.seeds: QualitySeeds | None = None
        self.why_none, self.had_no_time, self._is_over = "", False, False

    def run(self, *, step_s: float, start_s: float) -> None:
        """Train in the time that is left; a step takes so long, and so long passes until all workers of a seed can train."""
        plans = [*self.others, *self.plans]
        for_one_s = SPARE * self._setting.budget.left_s / self._setting.seeds - start_s - SHIPPING_S
        train_s = for_one_s / EVALUATING_TOO / (1 + len(plans))
        if train_s < max(LEAST_STEPS * step_s, LEAST_S):
            self.had_no_time = True
            self.why_none = "no time was left to compare its quality: a longer --budget-s leaves some"
        else:
            # Whether compiling pays off is decided by the whole training: here it does not count.
            goal = Goal(train_s=train_s, counts_first_step=False)
            self.seeds = self._make_seeds(plans, replace(self._setting, goal=goal))
            try:
                self.seeds.run()
            except AccelError as error:
                if self.seeds.is_stopped:  # its workers were ended
                    raise
                self.why_none = f"comparing its quality failed: {why_failed(error)}"
        self._is_over = True

    def results(self, *, is_over: bool) -> dict[str, EqualQuality]:
        """Of each plan what is known now; `is_over` where nothing more will be measured."""
        is_over = is_over or self._is_over
        has_begun = self.seeds is not None and self.seeds.schedules
        result = self.seeds.result("done" if is_over else "training") if self.seeds and has_begun else None
        why_none = self.why_none or ("its quality was not compared" if is_over and result is None else "")
        than = (BASELINE, *map(str, self.others))
        return {
            str(plan): EqualQuality(str(plan), than, self._keep_quality, result, why_none, is_over)
            for plan in self.plans
        }
