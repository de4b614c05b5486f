"""Search for the best plan in worker processes: a race under a steady allocator, then its winner anew as the notebook runs.

    search     rounds of plans against one baseline (`tune_search.py`)
    confirm    the winner and its first parts in fresh processes: only these figures are the answer
    prove      a winner that changes training is trained from several seeds, and has to be as good sooner (`quality_proof.py`)

What won a race of many is partly lucky, so its own figures in the race are too good. Those of the second part are not,
because nothing was chosen by them; where the best of several is taken, each has to be as sure as one of so many
(`StagePlan.chosen_from`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from accel.measuring.comparison import CHANGES, WIDE, Comparison
from accel.measuring.interval import DEFAULT_MALLOC_NOISE, STEADY_ALONE, STEADY_NOISE
from accel.measuring.took import Took, advice_for, nice
from accel.measuring.tuning import (
    NO_TIME,
    STOPPED,
    LeftOut,
    Tuning,
)
from accel.plans.plan import Plan
from accel.tuning.candidates import Candidates
from accel.units import counted
from accel.workers.messages import Load
from accel.workers.pool import WorkerPool
from accel.workers.quality_proof import QualityProof
from accel.workers.quality_seeds import QualitySeeds, QualitySetting
from accel.workers.relaunch_estimate import least_relaunch_s
from accel.workers.room_for_workers import room_for_workers
from accel.workers.samples import Effort
from accel.workers.stage import ENOUGH, StagePlan
from accel.workers.staged_trial import StagedTrial, TrialSetting
from accel.workers.step_block import Pipeline
from accel.workers.tune_evidence import TuneEvidence
from accel.workers.tune_ladder import best_of, growing, with_room
from accel.workers.tune_search import RACING, Aim, TuneSearch
from accel.workers.variant_worker import GroupFactory, no_groups
from accel.workload.shipping import Parcel

QUALITY_SHARE = 0.5  # of the budget, where plans may change training: to prove one
SEARCH_SHARE = 0.6  # of the budget, or of what is left of it then; the rest confirms the winner
CONFIRMING = Effort(least_rounds=12, most_rounds=30)
# Under glibc's own allocator processes lie some 9 % apart: more rounds of one tell nothing, more of them do.
CONFIRMING_NOISY = Effort(least_rounds=8, most_rounds=30, precise_enough=0.02)


class TuneTrial(StagedTrial[Tuning]):
    """Runs in the background, as any trial does; `result` is the tuning so far.

    >>> trial = accel.tune(wait=False)
    >>> trial.result            # what is known so far
    >>> trial.stop()            # keeps the best so far
    """

    command, called = "%accel tune", "Tuning"
    is_written_as_it_goes = True

    def __init__(
        self, candidates: Candidates, parcel: Parcel, load: Load, pool: WorkerPool, setting: TrialSetting, aim: Aim, *,
        check: Callable[[], str] = lambda: "", groups: GroupFactory = no_groups, quality: QualitySetting | None = None,
    ) -> None:  # fmt: skip
        super().__init__(parcel, load, pool, setting, check=check, groups=groups)
        self._quality = quality
        self._proof: QualityProof | None = None
        speed_share = 1.0 if quality is None else 1 - QUALITY_SHARE
        self._speed_s = speed_share * (self.budget.deadline - self.budget.began)
        self._aim, self._candidates = aim, candidates
        self._is_as_it_is = setting.notebook_is_steady or not setting.can_be_steady
        search_until = self.budget.began + SEARCH_SHARE * self._speed_s
        search_stage = self._stage(
            StagePlan(
                "search", setting.notebook_allocator if self._is_as_it_is else "steady", (), STEADY_NOISE, ENOUGH,
                RACING, is_headline=False, chosen_from=max(len(candidates.parts), 1),
            ),
            deadline=search_until, give_up_at=search_until, measures_floor=True,
        )  # fmt: skip
        self._at_once = room_for_workers(load.trains_on)
        self._search = TuneSearch(
            candidates, aim, search_stage, takes_s=self._takes_s, at_once=self._at_once,
            is_apart=lambda plan: not load.makes_ahead and Pipeline.of([plan], load) is not None,
            checks_first=load.makes_ahead or setting.load.others > 0,
        )  # fmt: skip
        self._found = TuneEvidence(self._search, candidates, aim)
        self._milder = Plan()  # the winner, if it changes training, with usual settings

    # --- the run ----------------------------------------------------------------------------------------------------

    def _measure(self) -> None:
        self._state = "measuring"
        try:
            self._search.run(is_stopped=self._stop.is_set, now=self.budget.clock)
        finally:
            self._search.leave_out_unmeasured(STOPPED if self._is_stopped else NO_TIME)
        if not self._stop.is_set() and self._search.has_winner:
            self._confirm()
        if not self._stop.is_set():
            self._prove()

    def _confirm(self) -> None:
        """The winner anew, with its first parts: what each adds, and whether it holds; and the best that was measured."""
        changing, race = self._candidates.changing, self._search.race
        has_room_for_both = self._at_once > 2
        order = race.in_order_of_gain(self._search.likely if has_room_for_both else race.leader)
        order.sort(key=changing.__contains__)
        parts = [self._candidates.plan(frozenset({part})) for part in order]
        winner, of_process = self._candidates.plan(frozenset(order)), self._candidates.of_process
        leader = self._candidates.plan(frozenset(race.in_order_of_gain(race.leader)))
        goes_with_all = self._candidates.allows(frozenset({str(of_process), *order}))
        if of_process and goes_with_all and not self._setting.notebook_is_steady:
            parts.insert(0, of_process)
        self._found.ladder = growing(parts)
        reference = self._search.stage.reference
        if reference:  # the first parts alone may not run
            self._found.ladder = tuple(each for each in self._found.ladder[-1:] if each != reference)
        unchanging = self._candidates.plan(race.best_of(self._candidates.known.keys() - changing))
        # What belongs to the process may gain nothing, and what changes training has to be proven.
        self._milder = self._with_usual_settings(order)
        more = [winner, *([unchanging, self._milder] if changing else []), leader]
        known = (Plan(), reference, *self._found.ladder)
        without = [plan for plan in dict.fromkeys(more) if plan not in known]
        self._found.ladder, without = with_room(self._found.ladder, without, self._at_once - 1)
        if not self._found.ladder:
            return
        # The last step is with the winner from the start: what it lacks may add nothing.
        on_the_way = frozenset(map(str, self._found.ladder[:-2])) - set(map(str, more))
        candidates = (*self._found.ladder[-1:], *without, *self._found.ladder[:-1])
        goes_on = changing.isdisjoint(order)
        self._state = "confirming"
        until = self.budget.deadline if goes_on else self.budget.began + self._speed_s
        effort = CONFIRMING if self._is_as_it_is else CONFIRMING_NOISY
        if self._quality is not None:  # the remaining time is for proving quality
            effort = replace(effort, fills=False)
        stage = self._found.stage = self._stage(
            StagePlan(
                "notebook", self._setting.notebook_allocator, candidates,
                STEADY_ALONE if self._is_as_it_is else DEFAULT_MALLOC_NOISE, self._most_relaunches(ENOUGH),
                effort, is_headline=not self._is_as_it_is, wide_is_fine=WIDE,
                chosen_from=max(len(candidates) - len(on_the_way), len(on_the_way)),
                ladder=tuple(map(str, self._found.ladder)), on_the_way=on_the_way,
            ),
            deadline=until, give_up_at=until, measures_floor=False,
        )  # fmt: skip
        stage.reference = reference
        try:
            stage.run()
        finally:
            stage.settle()

    def _with_usual_settings(self, order: Sequence[str]) -> Plan:
        """The winner with the usual settings of what changes training: the fastest may change it too much."""
        changing = {part: self._candidates.known[part].names for part in self._candidates.changing}
        names = {part: own[0] for part, own in changing.items() if len(own) == 1}
        usual = {part: name for part, name in names.items() if name in self._candidates.parts}
        parts = frozenset(usual.get(part, part) for part in order)
        return self._candidates.plan(parts) if self._candidates.allows(parts) else Plan()

    def _prove(self) -> None:
        """Where the fastest changes training: whether it is as good sooner than the cell, and than the best that does not."""
        if self._quality is None or self._found.stage is None:
            return
        good = self._found.good(is_over=False)
        if not good:  # nothing is to be proven yet: its time is free
            self._found.stage.go_on(self.budget.deadline)
            good = self._found.good(is_over=False)
        steps = self._aim.steps
        best, unchanging = (
            best_of(good, steps),
            best_of([row for row in good if row.effect != CHANGES], steps),
        )
        if best is None or not self._found.why_unproven(best, {}, is_over=False):
            return
        milder = [row for row in good if row.plan == str(self._milder) != best.plan and row.effect == CHANGES]
        changing = [best, *milder]
        others = [unchanging] if unchanging is not None else []
        self._proof = QualityProof(
            [Plan.parse(row.plan) for row in changing], [Plan.parse(row.plan) for row in others], self._seeds,
            self._quality, keep_quality=self._aim.keep_quality or 0.0,
        )  # fmt: skip
        all_rows = [*changing, *others]
        compiling_s = [max(0.0, row.setup_s) for row in all_rows]
        step_s = max(each for row in all_rows for each in (row.baseline_ms, row.candidate_ms)) / 1e3
        self._proof.run(step_s=step_s, start_s=self._pool.start_s(1 + len(all_rows)) + sum(compiling_s))

    def _seeds(self, plans: list[Plan], setting: QualitySetting) -> QualitySeeds:
        return QualitySeeds(
            plans, setting, self._parcel, self._load, self._pool, hold=self._hold, stop=self._stop,
            on_change=self._changed, phases=self.phases, groups=self._groups,
        )  # fmt: skip

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def plans(self) -> list[Plan]:
        """All plans that were measured."""
        reference = [self._search.stage.reference] if self._search.reference else []
        return [*reference, *(Plan.parse(row.plan) for row in self.result.rows)]

    @property
    def _detail(self) -> str:
        """What is known of the phase, and what leads."""
        ahead = self.result.ahead
        leads = f"ahead: {ahead.plan} {ahead.shown}" if ahead is not None else ""
        return " · ".join(filter(None, [super()._detail, leads]))

    @property
    def result(self) -> Tuning:
        """The tuning so far; the final one when it is over."""
        searched, confirmed = self._found.searched(), self._found.confirmed(is_over=self.is_over)
        proofs = self._proof.results(is_over=self.is_over) if self._proof is not None else {}
        unwanted = self._found.unwanted(confirmed, proofs, is_over=self.is_over)
        proven = max(
            (each for each in proofs.values() if unwanted.get(each.plan) == ""),
            key=lambda each: each.gain,
            default=None,
        )
        good = [row for row in confirmed if unwanted.get(row.plan) == ""]
        best = best_of([row for row in good if proven is None or row.plan == proven.plan], self._aim.steps)
        if best is None and self.is_over:
            best = self._search.reference_row()
        plan = Plan.parse(best.plan) if best is not None else Plan()
        timed = [row.baseline_ms for row in (*confirmed, *searched) if row.baseline_ms == row.baseline_ms]
        stages = [self._search.stage, *([self._found.stage] if self._found.stage else [])]
        others = [each for stage in stages for each in list(stage.others)]
        others += list(self._proof.seeds.others) if self._proof and self._proof.seeds else []
        return Tuning(
            best=best,
            parts=self._found.added_parts(plan),
            confirmed=confirmed,
            searched=searched,
            left_out=(
                *self._candidates.left_out, *self._search.left_out,
                *(LeftOut(label, why, is_news=True) for label, why in unwanted.items() if why),
            ),
            expectations=self._found.expectations(),
            baseline_ms=timed[0] if timed else math.nan,
            steps=self._aim.steps,
            machine_line=self._setting.machine_line,
            allocator_line=self._allocator_line(),
            took=self._took(confirmed),
            is_over=self.is_over,
            how_to_run=plan.how_to_run,
            notes=tuple(dict.fromkeys(filter(None, (
                *self._busy_lines(others, stages[-1].widened), *self._notes_on_quality, *self._setting.notes,
                *self._disk_notes,
            )))),
            unchanged_line=self._unchanged,
            quality=proven or next(iter(proofs.values()), None),
            fit_bytes=self._aim.fit_bytes,
            keep_quality=self._aim.keep_quality,
            against=str(self._search.stage.reference) if self._search.reference else "",
        )  # fmt: skip

    @property
    def _notes_on_quality(self) -> tuple[str, ...]:
        """What to know of a proof: data that was trained on too, weights that a seed starts from, seeds left out."""
        if self._quality is None or self._proof is None or self._proof.seeds is None:
            return ()
        return (*self._quality.notes, *self._proof.seeds.notes)

    def _takes_s(self, plans: Sequence[Plan]) -> float:
        """What a relaunch of the baseline and these plans takes here, at least."""
        setting, pipeline = self._setting, Pipeline.of(plans, self._load)
        start_s = self._pool.start_s(1 + len(plans))
        return least_relaunch_s(plans, setting.step_s, start_s, setting.load, pipeline)

    def _took(self, confirmed: Sequence[Comparison]) -> Took:
        advice = ""
        is_cut = self._search.is_cut_short or (
            self._found.stage is not None and self._found.stage.is_cut_short
        )
        is_cut = is_cut or bool(self._proof and self._proof.had_no_time)
        ended_by = self._ended_early
        if not ended_by:
            searched = counted(len(self._search.measured), "plan")
            ended_by = f"nothing better is to be expected after {searched}"
            if is_cut or self.is_out_of_time:
                ended_by = f"the time was up after {searched}"
            elif undecided := self._undecided(confirmed, self._found.stage):
                ended_by = f"{searched} measured; {undecided}"
            advice = self._advice(confirmed)
        return Took(self.seconds, self.budget.asked_s, self.phases.spent, ended_by, advice, self.began)

    def _advice(self, confirmed: Sequence[Comparison]) -> str:
        """What would decide what is open, where there is no answer."""
        asked_s = self.budget.asked_s or 0.0
        if any(row.verdict == "faster" and row.headline for row in confirmed):
            return ""
        if self._found.stage is None or not any(row.headline for row in confirmed):
            leader = self._search.race.leader
            is_ahead = bool(leader) and leader != self._search.reference and self._search.has_winner
            has_open = is_ahead or not self._search.measured
            return (
                f"%accel tune --budget-s {nice(max(2 * self.seconds, 1.01 * asked_s))} is likely to give an answer."
                if has_open
                else ""
            )
        relaunch_s = self._found.stage.usual_s / (1 - SEARCH_SHARE)
        return advice_for(
            confirmed, spent_s=self.seconds, relaunch_s=relaunch_s, least_s=2 * self.seconds, budget_s=asked_s,
            command="%accel tune",
        )  # fmt: skip

    def _allocator_line(self) -> str:
        if self._is_as_it_is:
            return "Allocator: as in this notebook, in every process."
        return (
            "Allocator: the search ran under a steady one, which tells plans apart; the answer is measured in fresh "
            "processes with the system's own, as in this notebook."
        )
