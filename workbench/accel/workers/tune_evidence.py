"""What a search knows at any time: rows of the race and of the confirmation, and why each of them is none to recommend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from accel.measuring.break_even import break_even
from accel.measuring.comparison import CHANGES, Comparison
from accel.measuring.equal_quality import EqualQuality
from accel.measuring.tuning import AddedPart, Expectation, is_needed, is_wanted, why_not_fitting
from accel.plans.plan import Plan
from accel.tuning.candidates import Candidates
from accel.workers.stage import Stage
from accel.workers.trial_rows import comparison_of, in_steady_worker, why_failed
from accel.workers.tune_ladder import only
from accel.workers.tune_search import Aim, TuneSearch

IN_PARTS = {"batch_size", "gradient_accumulation"}  # together they train on the samples of a step in parts

NOT_SEARCHED = (
    "measured in fresh processes alone: a notebook that has been running may hold the memory of a step already, and "
    "gain less"
)


class TuneEvidence:
    """The rows of a search, made from what its stages measured so far.

    `stage` measures the winner anew; `ladder` are the winner's first parts, one more each, and last the winner.

    >>> found = TuneEvidence(search, candidates, aim)
    >>> found.stage, found.ladder = stage, plans
    >>> found.confirmed(is_over=False)
    """

    def __init__(self, search: TuneSearch, candidates: Candidates, aim: Aim) -> None:
        self._search, self._candidates, self._aim = search, candidates, aim
        self.stage: Stage | None = None
        self.ladder: tuple[Plan, ...] = ()

    def good(self, *, is_over: bool) -> list[Comparison]:
        """Plans that may be the answer, as far as speed, memory and losses decide."""
        confirmed = self.confirmed(is_over=is_over)
        return [row for row in confirmed if is_wanted(row, self._aim.fit_bytes) and not self._flaw(row)]

    def unwanted(
        self, confirmed: Sequence[Comparison], proofs: Mapping[str, EqualQuality], *, is_over: bool
    ) -> dict[str, str]:
        """Of each plan that is faster or fits: what speaks against it, empty where nothing does."""
        return {
            row.plan: self._flaw(row) or self.why_unproven(row, proofs, is_over=is_over)
            for row in confirmed
            if is_wanted(row, self._aim.fit_bytes)
        }

    def searched(self) -> tuple[Comparison, ...]:
        """What the race measured, fastest first."""
        standings = list(self._search.stage.standings.items())
        rows = [self._search.row(label) for label, each in standings if each.shown is not None]
        return tuple(sorted(rows, key=lambda row: -row.shown.ratio if row.shown else 0.0))

    def confirmed(self, *, is_over: bool) -> tuple[Comparison, ...]:
        """The winner's first parts, the winner, and the winner without what belongs to the process."""
        stage = self.stage
        if stage is None:
            return ()
        in_order = dict.fromkeys([*map(str, self.ladder), *stage.standings])
        waiting = {
            label
            for label in stage.plan.on_the_way
            if stage.standings[label].shown is None and stage.standings[label].error is None
        }
        return tuple(
            self._confirmed_row(Plan.parse(label), stage, is_over)
            for label in in_order
            if label not in waiting
        )

    def _confirmed_row(self, plan: Plan, stage: Stage, is_over: bool) -> Comparison:
        standing = stage.standings[str(plan)]
        searched = self._search.stage.standings.get(str(in_steady_worker(plan)))
        floor, compiled_s = self._search.stage.floor, self._search.compiled_s(plan)
        row = comparison_of(plan, searched, standing, floor=floor, compiled_s=compiled_s)
        if standing.failure is not None:
            return replace(row, state="failed", error=why_failed(standing.failure))
        if searched is None and row.maps_much and in_steady_worker(plan):
            row = replace(row, notes=(*row.notes, NOT_SEARCHED))
        row = replace(row, details={"rounds_now": stage.rounds_now})
        return replace(row, state="done" if is_over else "confirming")

    def _fits_in_smaller_batches(self, row: Comparison) -> bool:
        """Whether all it changes is that a step's samples come in parts, because the cell itself has no room."""
        is_without_room = bool(self._search.reference) or is_needed(row, self._aim.fit_bytes)
        changing = {each.name for each in Plan.parse(row.plan).entries if each.effect == CHANGES}
        return is_without_room and row.samples_per_step is None and changing <= IN_PARTS

    def why_unproven(self, row: Comparison, proofs: Mapping[str, EqualQuality], *, is_over: bool) -> str:
        """Why a plan that changes training is not proven to be worth it; empty for all others, and for what is needed to fit."""
        if row.effect != CHANGES or self._fits_in_smaller_batches(row):
            return ""
        if (proof := proofs.get(row.plan)) is not None:
            return "" if proof.is_proven else proof.sentence
        if proofs:
            return f"it changes training; {', '.join(proofs)} was compared by quality in its place"
        return f"it changes training; its quality {'was not' if is_over else 'is not yet'} compared"

    def _flaw(self, row: Comparison) -> str:
        """What speaks against a plan, however fast it is or well it fits, without training it further."""
        plan = Plan.parse(row.plan)
        if too_large := why_not_fitting(row, self._aim.fit_bytes):
            return too_large
        if not plan.compiles or is_needed(row, self._aim.fit_bytes):
            return self._aim.why_not(row)
        cost = break_even(row.setup_s, row.baseline_ms, row.headline, "faster")
        if cost.high is None or cost.high > self._aim.steps:
            has = f"this training has {self._aim.steps:,} steps (--steps says how many the real one has)"
            return f"{cost.sentence('for compiling')}, and {has}"
        return self._aim.why_not(row)

    def added_parts(self, best: Plan) -> tuple[AddedPart, ...]:
        """What each part of the best plan adds, where plans of its first parts were measured too."""
        stage = self.stage
        if not best or stage is None or str(best) not in stage.standings:
            return ()
        plans = self.ladder[: self.ladder.index(best) + 1] if best in self.ladder else (best,)
        parts, before = [], Plan()
        for plan in plans:
            standing = stage.standings[str(plan)]
            own = [name for name in plan.names if name not in before.names]
            added = stage.added(str(plan), str(before)) if before else standing.shown
            if standing.shown is not None and added is not None:
                parts.append(AddedPart(str(only(plan, own)), standing.shown, added))
                before = plan
        return tuple(parts)

    def expectations(self) -> tuple[Expectation, ...]:
        """What was expected of single parts before, next to what they were measured to gain."""
        found = []
        for part, hint in self._candidates.hints.items():
            standing = self._search.stage.standings.get(str(self._candidates.plan(frozenset({part}))))
            found.append(Expectation(part, hint.source, hint.expected, standing.shown if standing else None))
        return tuple(found)
