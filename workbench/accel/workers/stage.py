"""A stage of a trial: relaunch by relaunch until each candidate is decided.

A trial has up to two. The *steady* stage runs every process under a steady allocator: tight, it says which plan is better.
The *notebook* stage runs every process as the user's notebook runs: wide, but it is the figure the user will see at home.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from accel.errors import AccelError
from accel.machine.peaks.other_work import OtherWork
from accel.measuring.comparison import Interval, Verdict
from accel.measuring.interval import (
    ProcessNoise,
    Spread,
    interval,
    paired_log_ratios,
    spread_of,
    student_quantile,
)
from accel.measuring.per_sample import compared_times
from accel.measuring.verdict import confidence_shown, confidence_to_stop, decide, direction
from accel.plans.plan import Plan
from accel.workers.relaunch import FEWEST_ROUNDS, NoTime, Relaunch
from accel.workers.samples import Effort, Samples
from accel.workers.variant_worker import Variant

ENOUGH = 8  # relaunches
STEPS_ENOUGH = 2  # of plans on the way to one that is decided


@dataclass(frozen=True)
class StagePlan:
    """What a stage runs: the baseline's allocator, candidates, how noisy its processes are."""

    name: str
    allocator: str
    candidates: tuple[Plan, ...]
    noise: ProcessNoise
    most_relaunches: int
    effort: Effort
    is_headline: bool
    wide_is_fine: float = (
        0.0  # a headline is good enough once it excludes 1 and its relative half-width is below this
    )
    ladder: tuple[str, ...] = ()
    """Plans that lead to the first candidate, and it: ENOUGH relaunches of them side by side tell what each part adds."""
    on_the_way: frozenset[str] = frozenset()
    """Those of the ladder that wait until the first candidate is proven: until then there are fewer processes to start."""
    chosen_from: int = (
        1  # plans of which the best will be claimed: each must be as sure as if it were one of so many
    )


@dataclass
class Standing:
    """What is known of one candidate so far."""

    log_ratios: list[list[float]] = field(default_factory=list)
    samples: list[Samples] = field(default_factory=list)
    base_samples: list[Samples] = field(default_factory=list)
    shown: Interval | None = None
    verdict: Verdict | None = None
    error: AccelError | None = None

    @property
    def failure(self) -> AccelError | None:
        """What it failed by; none where it was measured before and only had no time to compile again."""
        return None if self.samples and isinstance(self.error, NoTime) else self.error

    @property
    def is_open(self) -> bool:
        """Whether more relaunches would tell more: also of a plan that had no time to compile, whose code lies on disk now."""
        return self.verdict is None and (self.error is None or isinstance(self.error, NoTime))


class Stage:
    """Runs relaunches and keeps each candidate's standing; `on_change` is called after every relaunch and some rounds."""

    def __init__(
        self,
        plan: StagePlan,
        open_relaunch: Callable[[list[Variant]], Relaunch],
        *,
        stop: threading.Event,
        on_change: Callable[[], None],
        deadline: float,
        measures_floor: bool,
        is_out_of_time: Callable[[], bool] = lambda: False,
        give_up_at: float = math.inf,
    ) -> None:
        self.plan = plan
        self.standings = {str(candidate): Standing() for candidate in plan.candidates}
        self.reference = Plan()  # what all are compared with: the baseline, where that runs at all
        self.floor: list[float | None] = []
        self.rounds_now = self.relaunches = 0
        self.others: list[OtherWork] = []  # what other programs took of the CPUs, relaunch by relaunch
        self._spread: Spread | None = None  # of its processes
        self._log_ratios: list[dict[str, list[float]]] = []  # of every plan, relaunch by relaunch
        self._tensor_bytes: dict[str, int] = {}  # equal programs hold as much: counted once
        self.relaunch_s = 0.0  # what the last one took
        self.is_cut_short = False  # another relaunch would have shown more, and there was no time for it
        self.left_s = 0.0  # seconds that were left when it was cut short
        self._is_out_of_time = is_out_of_time
        self._give_up_at = give_up_at
        self.least_s = 0.0  # what another one would take at least
        self._open_relaunch, self._on_change = open_relaunch, on_change
        self._stop, self.deadline, self._measures_floor = stop, deadline, measures_floor
        self._candidates = {str(candidate): candidate for candidate in plan.candidates}

    def run(self) -> None:
        """Relaunch until everything is decided, the relaunches are used up, time is up, or someone says stop."""
        for number in range(1, self.plan.most_relaunches + 1):
            labels = self._next(number)
            if not labels or not self._relaunch(labels, is_last=number == self.plan.most_relaunches):
                return

    def _next(self, number: int) -> list[str]:
        """What is open; with it, or after it, the whole ladder, once the first candidate is proven faster."""
        ladder, goal = self.plan.ladder, next(iter(self.standings), "")
        waiting = self.plan.on_the_way if number <= ENOUGH else frozenset(ladder[:-1])
        first = [label for label, each in self.standings.items() if each.is_open and label not in waiting]
        if not waiting or number > ENOUGH:
            return first
        if self.standings[goal].failure is not None:  # one of them may be the answer
            return [label for label, each in self.standings.items() if each.is_open]
        runs = [label for label in ladder if self.standings[label].failure is None]
        least = ENOUGH if first else STEPS_ENOUGH
        has_few = any(len(self.standings[label].log_ratios) < least for label in waiting.intersection(runs))
        return list(dict.fromkeys([*first, *runs])) if has_few and self._is_proven(goal) else first

    def _is_proven(self, label: str) -> bool:
        shown = self.standings[label].shown
        if shown is None or self.standings[label].failure is not None:
            return False
        strict = self._interval(self.standings[label], confidence_to_stop(shown.relaunches))
        return direction(strict) == "faster"

    def go_on(self, until: float) -> None:
        """Decide what was left undecided because the time was up, in more time."""
        if self._stop.is_set() or not self.is_cut_short:
            return
        self.deadline, self._give_up_at = until, max(self._give_up_at, until)
        for standing in self.standings.values():
            standing.verdict = None if standing.verdict == "undecided" else standing.verdict
        try:
            self.run()
        finally:
            self.settle()

    def take_on(self, plans: Sequence[Plan], until: float) -> None:
        """Relaunch plans that did not fit in with the others, until they are decided or the time is up."""
        was_cut, least_s, self.deadline = self.is_cut_short, self.least_s, until
        for plan in plans:
            self._candidates[str(plan)], self.standings[str(plan)] = plan, Standing()
        self.run()
        if was_cut and not self.is_cut_short:
            self.is_cut_short, self.left_s, self.least_s = True, until - time.monotonic(), least_s

    def race(self, plans: Sequence[Plan]) -> bool:
        """One relaunch of these plans, which may be new here or be measured again; whether there is time for another."""
        for plan in plans:
            self._candidates[str(plan)] = plan
            self.standings.setdefault(str(plan), Standing())
        return self._relaunch([str(plan) for plan in plans], is_last=True)

    def _relaunch(self, labels: list[str], *, is_last: bool) -> bool:
        """Measure these once; whether there is time for another relaunch, and anybody wants it."""
        if self._stop.is_set():
            return False
        began = time.monotonic()
        samples = self._one_or_again(labels)
        if self._stop.is_set() and not self._is_out_of_time():
            return False
        now = time.monotonic()
        self.relaunch_s, self.relaunches = now - began, self.relaunches + 1
        has_no_time = self._stop.is_set() or now + self.least_s > self.deadline
        self.left_s = self.deadline - now
        self._add(labels, samples, is_last=has_no_time or is_last)
        self.is_cut_short = (
            has_no_time
            and not is_last
            and not all(self._is_answered(label) for label in labels if label not in self.plan.on_the_way)
        )
        self._tensor_bytes |= {
            label: each.tensor_bytes for label, each in samples.items() if each.tensor_bytes
        }
        self._on_change()
        return not has_no_time

    def _one_or_again(self, labels: list[str]) -> dict[str, Samples]:
        """A baseline that fails after it has run before was killed or hung: what is known is worth a second try."""
        try:
            return self._one(labels)
        except AccelError:
            is_first = self._measures_floor and not self.relaunches  # it may be the cell that fails
            if is_first or self._stop.is_set():
                raise
            return self._one(labels)

    def _one(self, labels: list[str]) -> dict[str, Samples]:
        plans = [self.reference, *(self._candidates[label] for label in labels)]
        variants = [Variant(plan, self.plan.allocator) for plan in plans]
        relaunch = self._open_relaunch(variants)
        relaunch.known_bytes = self._tensor_bytes
        try:
            with relaunch:
                self._measure(relaunch)
        except AccelError:
            if not self._is_out_of_time():  # else its workers were ended, and what whole rounds gave stays
                raise
        self.others.append(relaunch.others)
        self.least_s = relaunch.least_s
        return relaunch.samples

    def _measure(self, relaunch: Relaunch) -> None:
        samples = relaunch.measure(
            self.plan.effort, stop=self._stop, deadline=self.deadline, give_up_at=self._give_up_at,
            keeps_floor=self._measures_floor and not self.floor, on_round=self._round,
        )  # fmt: skip
        losses = [each.losses for each in samples.values() if each.error is None]
        compared = [min(len(losses[0]), len(each)) for each in losses[1:] if _differ(losses[0], each)]
        if self._measures_floor and max(compared, default=0) > len(self.floor) and not self._stop.is_set():
            longer_than, most = len(self.floor), max(compared)
            floor = relaunch.noise_floor(
                most, longer_than=longer_than, stop=self._stop, deadline=self.deadline
            )
            self.floor = floor or self.floor

    def _round(self, number: int) -> None:
        self.rounds_now = number
        if number % 10 == 0:
            self._on_change()

    def _add(self, labels: list[str], samples: dict[str, Samples], *, is_last: bool) -> None:
        measured = {label: ratios for label in labels if (ratios := self._taken_in(label, samples))}
        if measured:
            self._log_ratios.append(measured)
            self._spread = spread_of(self._log_ratios, self.plan.noise)
        for label in labels:
            standing = self.standings[label]
            if label in measured:
                standing.shown = self._interval(standing, confidence_shown(len(standing.log_ratios)))
            if label in measured or (standing.shown and is_last):
                # What was decided and is measured on, for others to be compared with, can only become less sure.
                was_decided = standing.verdict is not None
                standing.verdict = self._decide(standing, is_last=is_last or was_decided)

    def _taken_in(self, label: str, samples: dict[str, Samples]) -> list[float]:
        """What the relaunch tells of a candidate; empty where it failed or had too little time."""
        standing, base, own = self.standings[label], samples[str(self.reference)], samples[label]
        standing.error = own.error
        if standing.error is not None or min(len(base.step_ns), len(own.step_ns)) < FEWEST_ROUNDS:
            return []
        standing.log_ratios.append(paired_log_ratios(*compared_times(base, own)))
        standing.base_samples.append(base)
        standing.samples.append(own)
        return standing.log_ratios[-1]

    def _interval(self, standing: Standing, confidence: float) -> Interval:
        confidence = 1 - (1 - confidence) / self.plan.chosen_from  # Bonferroni
        return interval(standing.log_ratios, self.plan.noise, confidence=confidence, spread=self._spread)

    @property
    def usual_s(self) -> float:
        """Seconds of a relaunch that does not use up the remaining time."""
        return min(self.relaunch_s, self.least_s or self.relaunch_s)

    def settle(self) -> None:
        """Decide what is open by what is known: nothing more will be measured."""
        for standing in self.standings.values():
            if standing.shown is not None and standing.verdict is None:
                standing.verdict = self._decide(standing, is_last=True)

    @property
    def widened(self) -> float:
        """How many times as wide its intervals are as such processes give on a quiet machine; 1 where nothing was measured."""
        found = [
            self._half(each) / self._quiet_half(each.shown.relaunches)
            for each in list(self.standings.values())
            if each.shown is not None
        ]
        return median(found) if found else 1.0

    def _half(self, standing: Standing) -> float:
        assert standing.shown is not None
        return math.log(standing.shown.high / standing.shown.low) / 2

    def _quiet_half(self, relaunches: int) -> float:
        noise, plan = self.plan.noise, self.plan
        variance = (noise.sd**2 + plan.effort.precise_enough**2) / relaunches
        confidence = 1 - (1 - confidence_shown(relaunches)) / plan.chosen_from
        freedom = noise.weight + (self._spread.freedom if self._spread else 0)
        return student_quantile(0.5 + confidence / 2, freedom) * math.sqrt(variance)

    def added(self, label: str, before: str) -> Interval | None:
        """What a plan gains over another one, of the relaunches that both were in."""
        both = [each for each in self._log_ratios if label in each and before in each]
        ratios = [
            [own - other for own, other in zip(each[label], each[before], strict=False)] for each in both
        ]
        return interval(ratios, self.plan.noise, confidence=confidence_shown(len(ratios))) if ratios else None

    def _is_answered(self, label: str) -> bool:
        standing = self.standings[label]
        return not standing.is_open and standing.verdict != "undecided"

    def _decide(self, standing: Standing, *, is_last: bool) -> Verdict | None:
        shown = standing.shown
        assert shown is not None
        strict = self._interval(standing, confidence_to_stop(shown.relaunches))
        verdict = decide(shown, strict, is_last=is_last)
        is_too_wide = self.plan.is_headline and (shown.high / shown.low) ** 0.5 - 1 > self.plan.wide_is_fine
        return None if is_too_wide and not is_last else verdict


def _differ(one: list[float | None], other: list[float | None]) -> bool:
    """Whether two curves part somewhere on the steps that both have."""
    return any(a != b for a, b in zip(one, other, strict=False))


def median_ms(samples: list[Samples]) -> float:
    """Median step time over relaunches, in milliseconds."""
    return median(median(each.step_ns) for each in samples) / 1e6
