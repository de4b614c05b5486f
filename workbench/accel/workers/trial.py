"""A trial: candidates against the baseline in worker processes, in the background, with a ladder that fills live."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from accel.errors import AccelError, Reason
from accel.measuring.comparison import WIDE, Comparison, OpenBecause
from accel.measuring.interval import DEFAULT_MALLOC_NOISE, STEADY_ALONE, STEADY_NOISE
from accel.measuring.ladder import Ladder, speed
from accel.measuring.took import Took, advice_for, out_of_time
from accel.plans.plan import Plan
from accel.workers.background_trial import TrialState
from accel.workers.messages import Load
from accel.workers.pool import WorkerPool
from accel.workers.relaunch_estimate import least_relaunch_s, that_fit, what_does_not_fit
from accel.workers.samples import Effort
from accel.workers.stage import Stage, StagePlan, Standing
from accel.workers.staged_trial import StagedTrial, TrialSetting
from accel.workers.step_block import Pipeline
from accel.workers.trial_rows import (
    comparison_of,
    in_steady_worker,
    may_be_slower_where_not_measured,
    refused_row,
    why_failed,
)
from accel.workers.variant_worker import GroupFactory, no_groups
from accel.workload.shipping import Parcel


class Trial(StagedTrial[Ladder]):
    """Runs in the background; wait for it, await it, watch it, or stop it.

    >>> trial = accel.try_("channels_last", wait=False)
    >>> trial.ladder            # what is known so far
    >>> trial.stop()            # or: trial.wait(), or: await trial
    """

    def __init__(
        self, plans: list[Plan], parcel: Parcel, load: Load, pool: WorkerPool, setting: TrialSetting, *,
        check: Callable[[], str] = lambda: "", refused: dict[str, list[Reason]] | None = None,
        groups: GroupFactory = no_groups,
    ) -> None:  # fmt: skip
        super().__init__(parcel, load, pool, setting, check=check, groups=groups)
        self.plans, self._refused = plans, refused or {}
        self._stages: dict[str, Stage] = {}
        self._start_s = pool.start_s(1 + len(plans))
        self._pipeline = Pipeline.of(plans, load)
        budget_s = self.budget.left_s if self.budget.is_strict else math.inf
        self._measured = that_fit(plans, self._takes_s, budget_s) if setting.load.others else plans
        self._left_some_out = len(self._measured) < len(plans)

    # --- the run ----------------------------------------------------------------------------------------------------

    def _raise_if_all_failed(self) -> None:
        """A plan that fails has its error in its row; when every plan did, the trial did."""
        errors = [self._error_of(plan) for plan in self._measured]
        if all(errors) and not self._stop.is_set():
            raise next(error for error in errors if error)

    def _error_of(self, plan: Plan) -> AccelError | None:
        standings = (
            self._standing("steady", str(in_steady_worker(plan))),
            self._standing("notebook", str(plan)),
        )
        return next((each.failure for each in standings if each and each.failure), None)

    def _measure(self) -> None:
        budget = self.budget
        if (steady := self._steady_stage()) is not None:
            half = budget.deadline - budget.left_s / 2 if budget.is_strict else budget.deadline
            self._run_stage(steady, "measuring", half)
        notebook = self._notebook_stage()
        self._run_stage(notebook, "confirming" if self._stages else "measuring", budget.deadline)
        self._measure_those_left_out()
        self._decide_what_time_decides()
        self._raise_if_all_failed()

    def _measure_those_left_out(self) -> None:
        """Measure plans that did not fit in with the others, if the remaining time allows."""
        while (waiting := self._left_out) and not self._stop.is_set():
            more = that_fit(waiting, self._takes_s, self.budget.left_s)
            if self._takes_s(more) > self.budget.left_s:
                return
            self._measured = [*self._measured, *more]
            if (stage := self._stages.get("notebook")) is not None:
                effort = replace(stage.plan.effort, fills=self._effort.fills)
                stage.plan = replace(stage.plan, effort=effort)
                stage.take_on(more, self.budget.deadline)
            else:
                self._run_stage(
                    replace(self._notebook_stage(), candidates=tuple(more)), "measuring", self.budget.deadline
                )

    def _decide_what_time_decides(self) -> None:
        """Spend the remaining time on undecided plans that more relaunches may decide.

        The trial reads their verdict once, at the end: to stop at the first favourable result would call too many plans faster.
        """
        if not self.budget.is_strict:
            return
        self._measure_held_memory(self._open_because("heap not measured"))
        if steady := [plan for plan in map(in_steady_worker, self._open_because("heap")) if plan]:
            self._race("steady", [*dict.fromkeys(steady)])
        else:
            self._race("notebook", self._open_because("starting"))

    def _measure_held_memory(self, plans: list[Plan]) -> None:
        """Measure these plans, which are faster in fresh processes, under a steady allocator."""
        more = [*dict.fromkeys(map(in_steady_worker, plans))]
        if not more or self._takes_s(more) > self.budget.left_s:
            return
        with suppress(AccelError):  # a relaunch that fails must not discard earlier results
            if (stage := self._stages.get("steady")) is not None:
                stage.take_on(more, self.budget.deadline)
            else:
                self._run_stage(self._steady_plan(more), "measuring", self.budget.deadline)
        for standing in filter(None, (self._standing("steady", str(plan)) for plan in more)):
            standing.error = None

    def _race(self, name: str, plans: list[Plan]) -> None:
        """Relaunch these plans until the time is up or all fail."""
        stage = self._stages.get(name)
        if stage is None or not plans:
            return
        stage.deadline = self.budget.deadline
        raced = [stage.standings[str(plan)] for plan in plans]
        with suppress(AccelError):  # a relaunch that fails must not discard earlier results
            while stage.least_s <= self.budget.left_s and stage.race(plans):
                if all(standing.error for standing in raced):
                    break
        for standing in raced:
            standing.error = None

    def _open_because(self, because: OpenBecause) -> list[Plan]:
        rows = {plan: self._row(plan) for plan in self._measured if self._error_of(plan) is None}
        return [plan for plan, row in rows.items() if row.time_decides and row.open_because == because]

    @property
    def _left_out(self) -> list[Plan]:
        return [plan for plan in self.plans if plan not in self._measured]

    def _takes_s(self, plans: Sequence[Plan]) -> float:
        """What a relaunch of the baseline and these plans takes here, at least."""
        setting = self._setting
        return least_relaunch_s(plans, setting.step_s, self._start_s, setting.load, self._pipeline)

    def _run_stage(self, plan: StagePlan, state: TrialState, deadline: float) -> None:
        if not plan.candidates or self._stop.is_set():
            return
        self._state = state
        stage = self._stages[plan.name] = self._stage(
            plan, deadline=deadline, give_up_at=self.budget.deadline, measures_floor=not self._stages
        )
        self._changed()
        stage.run()

    def _steady_stage(self) -> StagePlan | None:
        setting = self._setting
        if setting.notebook_is_steady or not setting.can_be_steady or not self._has_time_for_both:
            return None
        return self._steady_plan(self._measured)

    def _steady_plan(self, plans: Sequence[Plan]) -> StagePlan:
        candidates = tuple(plan for plan in dict.fromkeys(map(in_steady_worker, plans)) if plan)
        most, effort = self._setting.steady_relaunches, self._effort
        return StagePlan("steady", "steady", candidates, STEADY_NOISE, most, effort, is_headline=False)

    def _notebook_stage(self) -> StagePlan:
        setting = self._setting
        is_only_stage = "steady" not in self._stages and all(
            not plan.needs_own_process for plan in self._measured
        )
        steady = self._stages.get("steady")
        candidates = tuple(
            plan
            for plan in self._measured
            if self._error_of(plan) is None  # what failed once is not run again
            and (
                plan.needs_own_process
                or steady is None
                or str(plan) not in steady.standings
                or steady.standings[str(plan)].verdict != "no difference"
            )
        )
        allocator, most = setting.notebook_allocator, self._most_relaunches(setting.notebook_relaunches)
        if is_only_stage and setting.notebook_is_steady:
            return StagePlan(
                "notebook",
                allocator,
                candidates,
                STEADY_ALONE,
                most,
                self._effort,
                is_headline=False,
            )
        effort = self._effort
        few = replace(effort, least_rounds=12, most_rounds=30, seconds=min(effort.seconds, 6.0))
        return StagePlan(
            "notebook", allocator, candidates, DEFAULT_MALLOC_NOISE, most, few,
            is_headline=True, wide_is_fine=WIDE,
        )  # fmt: skip

    @property
    def _effort(self) -> Effort:
        """The setting's effort; a relaunch does not use up the remaining time if a plan that was left out still fits into it."""
        least_s = min((self._takes_s([plan]) for plan in self._left_out), default=math.inf)
        has_room = self._takes_s(self._measured) + least_s <= self.budget.left_s
        return replace(self._setting.effort, fills=False) if has_room else self._setting.effort

    @property
    def _has_time_for_both(self) -> bool:
        """Of two stages the one that a user reads comes first; each is some relaunches."""
        least_s = self._takes_s(self._measured)
        later_s = least_relaunch_s([], 0.0, self._pool.start_s(1 << 10), self._setting.load) + least_s
        return not self.budget.is_strict or least_s + 2 * later_s < self.budget.left_s

    def _what_does_not_fit(self) -> str:
        if not self.budget.is_strict:
            return ""
        if self._left_some_out:
            left = [str(plan) for plan in self._left_out]
            verb = (
                ("was not measured" if len(left) == 1 else "were not measured")
                if self.is_over
                else "will be measured last, if time remains"
            )
            return f"Because other programs keep this machine busy, {', '.join(left)} {verb}." if left else ""
        return what_does_not_fit(self.plans, self._takes_s(self.plans), self.budget.seconds)

    def _took(self, rows: list[Comparison]) -> Took:
        stages = list(self._stages.values())
        least_s = self._takes_s(self.plans)
        relaunch_s = max((stage.usual_s for stage in stages), default=least_s)
        advice = advice_for(
            rows, spent_s=self.seconds, relaunch_s=relaunch_s, least_s=2 * least_s, budget_s=self.budget.asked_s or 0.0
        )  # fmt: skip
        return Took(
            self.seconds, self.budget.asked_s, self.phases.spent, self._what_ended_it(rows), advice if self.is_over else "",
            self.began,
        )  # fmt: skip

    def _what_ended_it(self, rows: list[Comparison]) -> str:
        if self._ended_early:
            return self._ended_early
        # The last stage has the verdict: one before it that was cut short left it its time.
        last = next(reversed(list(self._stages.values())), None)
        if self.is_out_of_time:
            return out_of_time()
        if last is not None and last.is_cut_short:
            return out_of_time(last.left_s, last.least_s)
        decided = "every plan that was measured is decided" if self._left_out else "every plan is decided"
        return self._undecided(rows, last) or decided

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
        stages = list(self._stages.values())
        others = [each for stage in stages for each in stage.others]
        widened = stages[-1].widened if stages else 1.0
        rows += [refused_row(plan, reasons) for plan, reasons in self._refused.items()]
        return Ladder(
            rows=tuple(rows),
            baseline_ms=sorted(base)[len(base) // 2] if base else float("nan"),
            machine_line=self._setting.machine_line,
            allocator_line=self._allocator_line(),
            notes=tuple(
                filter(
                    None,
                    (
                        self._what_does_not_fit(),
                        *self._busy_lines(others, widened),
                        *self._setting.notes,
                        *self._disk_notes,
                    ),
                )
            ),
            took=self._took(rows),
            unchanged_line=self._unchanged,
        )

    def _row(self, plan: Plan) -> Comparison:
        label, failed = str(plan), self._error_of(plan) or self.error
        row = comparison_of(
            plan,
            self._standing("steady", str(in_steady_worker(plan))),
            self._standing("notebook", label),
            floor=next((stage.floor for stage in self._stages.values() if stage.floor), []),
        )
        if row.verdict == "faster" and self._may_be_slower_here(plan):
            row = replace(row, verdict="undecided", open_because="heap not measured", time_decides=True)
        made = replace(
            row,
            state="failed" if failed else self._row_state(plan),
            error=why_failed(failed) if failed else "",
            details={
                "rounds_now": next((stage.rounds_now for stage in reversed(list(self._stages.values()))), 0)
            },
        )
        return made if made.shown else replace(made, verdict="undecided")

    def _may_be_slower_here(self, plan: Plan) -> bool:
        """Whether the plan may be slower in the notebook, which holds memory, and no stage has measured this."""
        setting, steady = self._setting, self._standing("steady", str(in_steady_worker(plan)))
        return (
            (steady is None or steady.shown is None)
            and setting.can_be_steady
            and not setting.notebook_is_steady
            and may_be_slower_where_not_measured(plan, self._standing("notebook", str(plan)))
        )

    def _standing(self, stage: str, label: str) -> Standing | None:
        return self._stages[stage].standings.get(label) if stage in self._stages else None

    def _row_state(
        self, plan: Plan
    ) -> Literal["waiting", "measuring", "confirming", "done", "stopped", "failed"]:
        if self.state == "starting" or (not self.is_over and plan not in self._measured):
            return "waiting"
        return self.state

    def _allocator_line(self) -> str:
        if self._setting.notebook_is_steady:
            return "Allocator: steady in this notebook already, so in every process of this trial too."
        if not self._setting.can_be_steady:
            return "Allocator: the system's own in every process (no steady setting is known for it)."
        return (
            "Allocator: the system's own in fresh processes, as in this notebook; what made no difference under a steady "
            "one, which tells finer, was not measured again."
        )
