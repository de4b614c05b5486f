"""Search for the best plan in worker processes: a race under a steady allocator, then its winner anew as the notebook runs.

    race       rounds of plans against one baseline; each relaunch is a round (`tuning/race.py` says of what)
    confirm    the winner and its first parts in fresh processes: only these figures are the answer

What won a race of many is partly lucky, so its own figures in the race are too good. Those of the second part are not,
because nothing was chosen by them; where the best of several is taken, each has to be as sure as one of so many
(`StagePlan.chosen_from`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from accel.measuring.comparison import WIDE, Comparison
from accel.measuring.interval import DEFAULT_MALLOC_NOISE, STEADY_ALONE, STEADY_NOISE, expected_variance
from accel.measuring.took import Took, advice_for
from accel.measuring.tuning import AddedPart, Expectation, LeftOut, Tuning
from accel.plans.plan import Plan
from accel.tuning.candidates import Candidates
from accel.tuning.gain_model import Choice, Measured, Prior
from accel.tuning.race import WORTH, Race
from accel.units import counted
from accel.workers.background_trial import BackgroundTrial
from accel.workers.messages import Load
from accel.workers.pool import WorkerPool
from accel.workers.relaunch import Effort, NoTime, Relaunch
from accel.workers.relaunch_estimate import least_relaunch_s
from accel.workers.stage import Stage, StagePlan
from accel.workers.trial import TrialSetting
from accel.workers.trial_rows import comparison_of, in_steady_worker, why_failed
from accel.workers.variant_worker import GroupFactory, Variant, no_groups
from accel.workload.shipping import Parcel

SEARCH_SHARE = 0.6  # of the budget; the rest confirms the winner
MOST_AT_ONCE = 12  # workers of one relaunch: their imports take CPU, and their models memory
MOST_CONFIRMED = 5  # plans measured anew: the winner and what it is made of
MOST_RELAUNCHES = 8
RACING = Effort(
    warm_up=4, least_rounds=10, most_rounds=24, seconds=6.0, precise_enough=0.01, leaves_slower=True
)
CONFIRMING = Effort(least_rounds=12, most_rounds=30)
OTHER_SETTING_SD = 0.15  # of log speed-up: how far another setting of a good part lies from it


@dataclass(frozen=True)
class Aim:
    """What a search is for: over how many steps of training, and what quality may be lost.

    `keep_quality` is the share by which losses may be worse on average (0.005: half a per cent); None: as far as the
    noise floor and the usual band of low precision allow.
    """

    steps: int
    keep_quality: float | None = None
    seed: int = 0


class TuneTrial(BackgroundTrial[Tuning]):
    """Runs in the background, as any trial does; `result` is the tuning so far.

    >>> trial = accel.tune(wait=False)
    >>> trial.result            # what is known so far
    >>> trial.stop()            # keeps the best so far
    """

    command = "%accel tune"

    def __init__(
        self, candidates: Candidates, parcel: Parcel, load: Load, pool: WorkerPool, setting: TrialSetting, aim: Aim, *,
        check: Callable[[], str] = lambda: "", groups: GroupFactory = no_groups,
    ) -> None:  # fmt: skip
        super().__init__(parcel, check, setting.budget)
        self._load, self._pool, self._setting, self._aim = load, pool, setting, aim
        self._groups, self._candidates = groups, candidates
        self._left_out = list(candidates.left_out)
        self._race = Race(
            {part: candidates.prior(part) for part in candidates.parts}, candidates.allows, seed=aim.seed
        )
        self._search_stage = self._confirm_stage = None  # type: Stage | None
        self._raced: dict[str, int] = {}  # relaunches of each plan that the race has taken in
        self._ladder: tuple[Plan, ...] = ()  # the winner's first parts, one more each; the winner last

    # --- the run ----------------------------------------------------------------------------------------------------

    def _measure(self) -> None:
        self._search()
        self._confirm()

    def _search(self) -> None:
        self._state = "measuring"
        stage = self._search_stage = self._stage(
            StagePlan(
                "search", self._search_allocator, (), STEADY_NOISE, MOST_RELAUNCHES, RACING, is_headline=False,
                chosen_from=max(len(self._candidates.parts), 1),
            ),
            deadline=self.budget.began + SEARCH_SHARE * (self.budget.deadline - self.budget.began),
        )  # fmt: skip
        while choices := self._race.next_round():
            for some in _in_turns(choices, MOST_AT_ONCE - 1):
                if not self._has_time_for(some, stage):
                    return
                goes_on = stage.race([self._candidates.plan(choice) for choice in some])
                self._take(some, stage)
                if not goes_on or self._stop.is_set():
                    return
            self._race_other_settings()

    def _has_time_for(self, choices: Sequence[Choice], stage: Stage) -> bool:
        plans = [self._candidates.plan(choice) for choice in choices]
        needed_s = least_relaunch_s(plans, self._setting.step_s, self._pool.start_s(1 + len(plans)))
        return stage.relaunches == 0 or self.budget.clock() + needed_s < stage.deadline

    def _take(self, choices: Sequence[Choice], stage: Stage) -> None:
        """Give the race what the last relaunch showed; a plan that failed or did not do what it should is out."""
        for choice in choices:
            label = str(self._candidates.plan(choice))
            standing = stage.standings[label]
            if isinstance(standing.error, NoTime):
                self._leave_out(choice, "no time was left to measure it: a longer --budget-s takes it in")
            elif standing.error is not None:
                self._leave_out(choice, why_failed(standing.error))
            elif why := self._why_not_wanted(self._search_row(label)):
                self._leave_out(choice, why)
            elif len(standing.log_ratios) > self._raced.get(label, 0):
                self._raced[label] = len(standing.log_ratios)
                ratios = standing.log_ratios[-1]
                gain = self._over_training(self._candidates.plan(choice), stage, label)
                self._race.take([Measured(choice, gain, expected_variance(ratios, STEADY_NOISE) ** 0.5)])

    def _leave_out(self, choice: Choice, why: str) -> None:
        self._race.leave_out(choice)
        self._left_out.append(LeftOut(str(self._candidates.plan(choice)), why, is_news=True))

    def _why_not_wanted(self, row: Comparison) -> str:
        """Why a plan that runs is none to recommend, however fast it is; empty where nothing speaks against it."""
        if row.quality.following == "drifts":
            return str(row.quality)
        lost, most = row.quality.lost, self._aim.keep_quality
        if most is not None and lost > most + row.quality.noise_floor:
            return f"losses are {100 * lost:.2g} % higher on average, and {100 * most:g} % was allowed"
        missed = [f"{name}: {evidence}" for name, took, evidence in row.proofs if not took]
        return f"did not take effect: {'; '.join(missed)}" if missed else ""

    def _over_training(self, plan: Plan, stage: Stage, label: str) -> float:
        """The log speed-up of the whole training: what is compiled first has to be earned back by its steps."""
        standing, row = stage.standings[label], self._search_row(label)
        ratios = sorted(standing.log_ratios[-1])
        gain = ratios[len(ratios) // 2]
        if not plan.compiles or not row.setup_s > 0 or not row.baseline_ms > 0:
            return gain
        whole_s = self._aim.steps * row.baseline_ms / 1000
        return -math.log(math.exp(-gain) + row.setup_s / whole_s)

    def _race_other_settings(self) -> None:
        """Once a part is good, its other settings take part too."""
        model = self._race.model
        for part, settings in self._candidates.settings.items():
            new = {text for text in settings if text not in model.parts}
            if new and part in model.parts and (gain := model.gain(frozenset({part}))) > WORTH:
                self._race.add(dict.fromkeys(sorted(new), Prior(gain, OTHER_SETTING_SD)))

    def _confirm(self) -> None:
        """The winner anew, with its first parts: what each adds, and whether it holds."""
        parts = [self._candidates.plan(frozenset({part})) for part in self._race.in_order_of_gain()]
        if self._candidates.of_process and not self._setting.notebook_is_steady:
            parts.insert(0, self._candidates.of_process)
        self._ladder = _growing(parts)
        if not self._ladder or self._stop.is_set():
            return
        self._state = "confirming"
        is_tight = self._setting.notebook_is_steady or not self._setting.can_be_steady
        stage = self._confirm_stage = self._stage(
            StagePlan(
                "notebook", self._setting.notebook_allocator, self._ladder,
                STEADY_ALONE if is_tight else DEFAULT_MALLOC_NOISE, MOST_RELAUNCHES, CONFIRMING,
                is_headline=not is_tight, wide_is_fine=WIDE, chosen_from=len(self._ladder),
            ),
            deadline=self.budget.deadline,
        )  # fmt: skip
        stage.run()

    def _stage(self, plan: StagePlan, *, deadline: float) -> Stage:
        return Stage(
            plan, self._open, stop=self._stop, on_change=self._changed, deadline=deadline,
            measures_floor=self._search_stage is None, is_out_of_time=lambda: self.is_out_of_time,
            give_up_at=deadline if self.budget.is_strict else math.inf,
        )  # fmt: skip

    def _open(self, variants: list[Variant]) -> Relaunch:
        relaunch = Relaunch(
            self._pool, self._parcel, variants, load=self._load, timeout_s=self._setting.timeout_s, groups=self._groups,
            phases=self.phases,
        )  # fmt: skip
        self._hold(relaunch)
        return relaunch

    @property
    def _search_allocator(self) -> str:
        is_as_it_is = self._setting.notebook_is_steady or not self._setting.can_be_steady
        return self._setting.notebook_allocator if is_as_it_is else "steady"

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def plans(self) -> list[Plan]:
        """All plans that were measured."""
        return [Plan.parse(row.plan) for row in self.result.rows]

    @property
    def result(self) -> Tuning:
        """The tuning so far; the final one when it is over."""
        searched = self._searched()
        confirmed = tuple(self._confirmed_row(plan) for plan in self._ladder) if self._confirm_stage else ()
        best = self._best(confirmed)
        plan = Plan.parse(best.plan) if best is not None else Plan()
        timed = [row.baseline_ms for row in (*confirmed, *searched) if row.baseline_ms == row.baseline_ms]
        others = [each for stage in self._stages for each in list(stage.others)]
        return Tuning(
            best=best,
            parts=self._added_parts(plan),
            confirmed=confirmed,
            searched=searched,
            left_out=tuple(self._left_out),
            expectations=self._expectations(),
            baseline_ms=timed[0] if timed else math.nan,
            steps=self._aim.steps,
            machine_line=self._setting.machine_line,
            allocator_line=self._allocator_line(),
            took=self._took(),
            is_over=self.is_over,
            how_to_run=plan.how_to_run,
            notes=tuple(filter(None, (*self._busy_lines(others), *self._setting.notes, *self._disk_notes))),
            unchanged_line=self._unchanged,
        )

    @property
    def _stages(self) -> list[Stage]:
        return [stage for stage in (self._search_stage, self._confirm_stage) if stage is not None]

    def _searched(self) -> tuple[Comparison, ...]:
        if self._search_stage is None:
            return ()
        labels = [
            label for label, each in list(self._search_stage.standings.items()) if each.shown is not None
        ]
        rows = [self._search_row(label) for label in labels]
        return tuple(sorted(rows, key=lambda row: -row.shown.ratio if row.shown else 0.0))

    def _search_row(self, label: str) -> Comparison:
        assert self._search_stage is not None
        return comparison_of(
            Plan.parse(label), self._search_stage.standings[label], None, floor=self._search_stage.floor
        )

    def _confirmed_row(self, plan: Plan) -> Comparison:
        assert self._search_stage is not None
        assert self._confirm_stage is not None
        standing = self._confirm_stage.standings[str(plan)]
        searched = self._search_stage.standings.get(str(in_steady_worker(plan)))
        row = comparison_of(plan, searched, standing, floor=self._search_stage.floor)
        if standing.error is not None:
            return replace(row, state="failed", error=why_failed(standing.error))
        rounds = {"rounds_now": self._confirm_stage.rounds_now}
        return replace(row, state="done" if self.is_over else "confirming", details=rounds)

    def _best(self, confirmed: Sequence[Comparison]) -> Comparison | None:
        """The fastest that is proven and pays off; of those that are as fast, the one with the fewest parts."""
        good = [row for row in confirmed if row.verdict == "faster" and row.headline and self._is_wanted(row)]
        most = max((row.headline.ratio for row in good if row.headline), default=math.nan)
        return next(
            (row for row in good if row.headline and row.headline.ratio * (1 + WORTH / 2) > most), None
        )

    def _is_wanted(self, row: Comparison) -> bool:
        pays_off = not Plan.parse(row.plan).compiles or (row.break_even_steps or math.inf) <= self._aim.steps
        return pays_off and not self._why_not_wanted(row)

    def _added_parts(self, best: Plan) -> tuple[AddedPart, ...]:
        if not best or self._confirm_stage is None:
            return ()
        parts, before = [], Plan()
        for plan in self._ladder:
            standing = self._confirm_stage.standings[str(plan)]
            own = [name for name in plan.names if name not in before.names]
            added = self._confirm_stage.added(str(plan), str(before)) if before else standing.shown
            if standing.shown is not None and added is not None:
                parts.append(AddedPart(str(_only(plan, own)), standing.shown, added))
            before = plan
            if plan == best:
                break
        return tuple(parts)

    def _expectations(self) -> tuple[Expectation, ...]:
        stage, found = self._search_stage, []
        for part, hint in self._candidates.hints.items():
            standing = stage.standings.get(part) if stage is not None else None
            found.append(Expectation(part, hint.source, hint.expected, standing.shown if standing else None))
        return tuple(found)

    def _took(self) -> Took:
        if not self.is_over:
            ended_by = "it goes on"
        elif self.state in ("stopped", "failed"):
            ended_by = {"stopped": "you stopped it", "failed": "it failed"}[self.state]
        elif self.is_out_of_time or any(stage.is_cut_short for stage in self._stages):
            ended_by = "the time was up"
        else:
            ended_by = f"nothing better is to be expected after {counted(len(self._raced), 'plan')}"
        return Took(
            self.seconds,
            self.budget.asked_s,
            self.phases.spent,
            ended_by,
            self._advice() if self.is_over else "",
        )

    def _advice(self) -> str:
        """What would decide what is open, where the answer is."""
        stage = self._confirm_stage
        if stage is None or self.state in ("stopped", "failed"):
            return ""
        rows = [self._confirmed_row(plan) for plan in self._ladder]
        if any(row.verdict == "faster" for row in rows):
            return ""
        spent_s = self.seconds
        return advice_for(
            rows, spent_s=spent_s, relaunch_s=stage.relaunch_s / (1 - SEARCH_SHARE), least_s=2 * spent_s
        )

    def _allocator_line(self) -> str:
        if self._search_allocator != "steady":
            return "Allocator: as in this notebook, in every process."
        return (
            "Allocator: the search ran under a steady one, which tells plans apart; the answer is measured in fresh "
            "processes with the system's own, as in this notebook."
        )


def _in_turns(choices: Sequence[Choice], size: int) -> list[Sequence[Choice]]:
    return [choices[start : start + size] for start in range(0, len(choices), size)]


def _growing(parts: Sequence[Plan]) -> tuple[Plan, ...]:
    """Plans of the first part, the first two, and so on to all; the last steps are taken together where there are many."""
    plans, whole = [], Plan()
    for part in parts:
        whole = whole.updated(part)
        plans.append(whole)
    return tuple(plans if len(plans) <= MOST_CONFIRMED else [*plans[: MOST_CONFIRMED - 1], plans[-1]])


def _only(plan: Plan, names: Sequence[str]) -> Plan:
    for name in plan.names:
        if name not in names:
            plan = plan.without(name)
    return plan
