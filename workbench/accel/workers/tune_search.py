"""The search of a tuning: rounds of plans against one baseline, each round a relaunch; `tuning/race.py` says of what."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from accel.errors import AccelError, OutOfMemory
from accel.measuring.comparison import CHANGES, Comparison, Interval, Quality
from accel.measuring.interval import STEADY_NOISE, expected_variance
from accel.measuring.tuning import NO_TIME, LeftOut
from accel.plans.plan import Plan
from accel.tuning.candidates import Candidates
from accel.tuning.gain_model import NOTHING, Choice, Measured, Prior
from accel.tuning.memory_limit import MemoryLimit
from accel.tuning.race import WORTH, Race
from accel.workers.relaunch import NoTime
from accel.workers.relaunch_estimate import COMPILING_S
from accel.workers.samples import Effort
from accel.workers.stage import Stage, Standing
from accel.workers.trial_rows import comparison_of, peaks_of, why_failed
from accel.workers.tune_ladder import over_training

RACING = Effort(
    warm_up=4,
    least_rounds=10,
    most_rounds=24,
    seconds=6.0,
    precise_enough=0.01,
    leaves_slower=True,
    fills=False,
)
EXACT, UNKNOWN = 0.001, 10.0  # errors of a log speed-up: of what is compared with itself; of what did not run
OTHER_SETTING_SD = 0.15  # of log speed-up: how far another setting of a good part lies from it


@dataclass(frozen=True)
class Aim:
    """What a search is for: over how many steps of training, and what quality may be lost.

    `keep_quality` is the share by which losses may be higher on average (0.005: half a per cent); None: they have to follow
    the baseline's step by step, as in a trial. `fit_bytes` is the memory that a plan may take at its peak.
    """

    steps: int
    keep_quality: float | None = None
    seed: int = 0
    fit_bytes: int | None = None

    def why_not(self, row: Comparison) -> str:
        """Why a plan that runs is none to recommend, however fast it is; empty where nothing speaks against it."""
        missed = [f"{name}: {evidence}" for name, took, evidence in row.proofs if not took]
        if missed:
            return f"did not take effect: {'; '.join(missed)}"
        quality, most = row.quality, self.keep_quality
        if row.effect == CHANGES:  # losses are others: a `QualityProof` decides
            return str(quality) if quality.largest_difference == math.inf else ""
        if most is None:
            return str(quality) if quality.following == "drifts" else ""
        if quality.following in ("unknown", "other batches", "not measured"):
            return f"--keep-quality cannot be checked: {quality}"
        return quality.allowed(most) if quality.lost > most + quality.lost_by_noise else ""


class TuneSearch:
    """Runs the race in a stage, round by round; knows what is left out and why.

    Args:
        candidates: What plans may be made of.
        aim: What counts.
        stage: A stage without candidates, whose relaunches are the rounds.
        takes_s: What a relaunch of the baseline and some plans takes at least, in seconds.
        at_once: Workers that have room at once.
        is_apart: Whether a plan's turns are long, so that it is measured apart from plans with short turns.
        checks_first: Whether the first relaunch, too, leaves out plans for which there is no time.
    """

    def __init__(
        self, candidates: Candidates, aim: Aim, stage: Stage, *, takes_s: Callable[[Sequence[Plan]], float], at_once: int,
        is_apart: Callable[[Plan], bool] = lambda _: False, checks_first: bool = False,
    ) -> None:  # fmt: skip
        self._candidates, self._aim, self.stage = candidates, aim, stage
        self._takes_s, self._at_once, self._is_apart = takes_s, at_once, is_apart
        self._checks_first = checks_first
        self.limit = MemoryLimit(math.inf if aim.fit_bytes is None else aim.fit_bytes)
        self.race = Race(
            {part: candidates.prior(part) for part in candidates.parts}, candidates.allows, seed=aim.seed,
            priced=self.limit.priced,
        )  # fmt: skip
        self.reference: Choice = NOTHING  # what all are compared with
        self._references = _small_ones(candidates)
        self.left_out: list[LeftOut] = []
        self.measured: dict[str, int] = {}  # relaunches of each plan that the race has taken in
        self.is_cut_short = False
        self._setups: dict[
            str, float
        ] = {}  # what compiling took when it was not on disk yet, by the part that compiles

    def run(self, *, is_stopped: Callable[[], bool], now: Callable[[], float]) -> None:
        """Rounds until nothing better is to be expected, or the stage's time is over."""
        while (choices := self.race.next_round()) and self._round(choices, is_stopped, now):
            self._race_other_settings()

    def leave_out_unmeasured(self, why: str) -> None:
        """It is over: parts of which nothing was measured are named with the reason."""
        known = {each.plan for each in self.left_out}
        for part in self._candidates.parts:
            choice: Choice = frozenset({part})
            label = str(self._candidates.plan(choice))
            is_measured = self.stage.standings.get(label, Standing()).shown is not None
            if label not in known and choice != self.reference and not is_measured:
                self.left_out.append(LeftOut(label, why, is_news=True))

    def _round(
        self, choices: Sequence[Choice], is_stopped: Callable[[], bool], now: Callable[[], float]
    ) -> bool:
        """Measure these, as many at once as have room; whether there is time for another round."""
        has_news = False
        for some in self._in_turns(choices):
            fitting = self._with_time(some, now)
            for choice in some:
                if choice not in fitting:
                    self.is_cut_short = True
                    has_news = self._leave_out_for_time(choice) or has_news
            if not fitting:
                continue
            goes_on = self._raced(fitting)
            has_news = has_news or any(choice != self.reference for choice in fitting)
            self._take(fitting)
            if not goes_on or is_stopped():
                self.is_cut_short = self.is_cut_short or is_stopped() or bool(self.race.next_round())
                return False
        if self.reference and not self.stage.relaunches:
            raise self._nothing_to_compare()
        return has_news

    def _with_time(self, choices: Sequence[Choice], now: Callable[[], float]) -> Sequence[Choice]:
        """The choices that there is still time for; in the first relaunch at least one, so that there is an answer."""
        if self.stage.relaunches:
            return [*self._fitting(choices, now)]
        is_long = self._checks_first or self._is_apart(self._candidates.plan(choices[0]))
        return ([*self._fitting(choices, now)] or choices[:1]) if is_long else choices

    def _in_turns(self, choices: Sequence[Choice]) -> Iterator[Sequence[Choice]]:
        """Groups as large as there is room for; choices with long turns form their own groups."""
        size = max(self._at_once - 1, 1)
        for apart in (False, True):
            group = [each for each in choices if self._is_apart(self._candidates.plan(each)) is apart]
            yield from (group[start : start + size] for start in range(0, len(group), size))

    def _raced(self, choices: Sequence[Choice]) -> bool:
        """One relaunch; where the cell as it is has too little memory, against the first plan that has not."""
        while True:
            plans = [self._candidates.plan(choice) for choice in choices if choice != self.reference]
            try:
                goes_on = not plans or self.stage.race(plans)
                if self.reference and self.stage.relaunches == 1:
                    self.race.take([Measured(self.reference, 0.0, EXACT)])
                return goes_on
            except OutOfMemory as error:
                if self._aim.fit_bytes is None or self.stage.relaunches:
                    raise
                self._compare_with_another(error)

    def _nothing_to_compare(self) -> AccelError:
        only = self.stage.reference
        return AccelError(
            f"%accel tune of {only}",
            because="the cell as it is has too little memory here, and there is nothing else to compare",
            do=f"Keep it and see whether it runs: %accel keep {only}. Or --include another one.",
        )  # fmt: skip

    def _compare_with_another(self, error: OutOfMemory) -> None:
        """What all were compared with does not run."""
        self.limit.take(self.reference, math.inf)
        if not self._references:
            raise AccelError(
                "%accel tune --fit",
                because=f"the cell as it is has too little memory here, and so has each plan that saves some ({error.because})",
                do="Make its batch smaller in the cell, profile it and search again.",
            ) from error
        self.reference = self._references.pop(0)
        self.stage.reference = self._candidates.plan(self.reference)

    @property
    def has_winner(self) -> bool:
        """Whether what leads is worth measuring anew: it fits, where that was asked for."""
        return any(self.limit.price(each) == 0 for each in (self.race.leader, self.likely))

    @property
    def likely(self) -> Choice:
        """What is expected to be the best: perhaps not measured yet, and then nothing that has to be compiled first."""
        parts = self._candidates.known
        running = [part for part, plan in parts.items() if not plan.compiles]
        likely = [self.race.likely_of(each) for each in (parts, running)]
        return next(
            (each for each in likely if self._is_measured(each) or not self._compiles(each)), self.race.leader
        )

    def _is_measured(self, choice: Choice) -> bool:
        return str(self._candidates.plan(choice)) in self.measured

    def _compiles(self, choice: Choice) -> bool:
        return self._candidates.plan(choice).compiles

    def row(self, label: str) -> Comparison:
        """What is known of a plan that was searched."""
        plan = Plan.parse(label)
        standing, compiled_s = self.stage.standings[label], self.compiled_s(plan)
        return comparison_of(plan, standing, None, floor=self.stage.floor, compiled_s=compiled_s)

    def reference_row(self) -> Comparison | None:
        """The plan that all were compared with, against itself, where it fits; None for the cell as it is."""
        if not self.reference or not self.limit.fits(self.reference):
            return None
        plan, peak = self.stage.reference, int(self.limit.expected(self.reference))
        alike = Interval(1.0, 1.0, 1.0, 0, 0)
        return Comparison(
            str(plan), "no difference", alike, None, Quality("unknown"), plan.effect, peak_bytes=(peak, peak)
        )

    def compiled_s(self, plan: Plan) -> float:
        """What its parts that compile took when their code was not on disk yet; later relaunches find it there."""
        return max([0.0, *(self._setups.get(text, 0.0) for text in _compiling(plan))])

    def _fitting(self, choices: Sequence[Choice], now: Callable[[], float]) -> Iterator[Choice]:
        """Those, in their order, that there is still time to measure together."""
        plans: list[Plan] = []
        for choice in choices:
            more = [*plans, self._candidates.plan(choice)]
            compiling = [each for each in more if each.compiles]
            known_s = [
                max([self._setups.get(text, COMPILING_S) for text in _compiling(each)]) for each in compiling
            ]
            needed_s = self._takes_s(more) + sum(known_s) - COMPILING_S * len(compiling)
            if now() + needed_s < self.stage.deadline:
                plans = more
                yield choice

    def _take(self, choices: Sequence[Choice]) -> None:
        """Give the race what the last relaunch showed; a plan that failed or did not do what it should is out."""
        for choice in choices:
            if choice == self.reference:
                continue
            plan = self._candidates.plan(choice)
            standing = self.stage.standings[str(plan)]
            if isinstance(standing.error, OutOfMemory) and self._aim.fit_bytes is not None:
                self.limit.take(choice, math.inf)
                self.race.take([Measured(choice, 0.0, UNKNOWN)])  # with what saves memory it may run
                self.left_out.append(LeftOut(str(plan), why_failed(standing.error), is_news=True))
            elif isinstance(standing.error, NoTime):
                self._leave_out_for_time(choice)
            elif standing.error is not None:
                self._leave_out(choice, why_failed(standing.error))
            elif standing.samples and (why := self._aim.why_not(self.row(str(plan)))):
                self._leave_out(choice, why)
            elif len(standing.log_ratios) > self.measured.get(str(plan), 0):
                self.measured[str(plan)] = len(standing.log_ratios)
                ratios = standing.log_ratios[-1]
                if (peaks := peaks_of(standing)[0]) is not None:
                    self.limit.take(self.reference, peaks[0])
                    self.limit.take(choice, peaks[1])
                gain = self._over_training(plan, median(ratios))
                self.race.take([Measured(choice, gain, expected_variance(ratios, STEADY_NOISE) ** 0.5)])

    def _leave_out_for_time(self, choice: Choice) -> bool:
        """What was never measured is out, because later there is less time still; whether it was."""
        if self._is_measured(choice) or choice == self.reference:
            return False
        self._leave_out(choice, NO_TIME)
        return True

    def _leave_out(self, choice: Choice, why: str) -> None:
        self.race.leave_out(choice, for_time=why == NO_TIME)
        self.left_out.append(LeftOut(str(self._candidates.plan(choice)), why, is_news=True))

    def _over_training(self, plan: Plan, gain: float) -> float:
        """The log speed-up of the whole training: what is compiled first has to be earned back by its steps."""
        row = self.row(str(plan))
        if plan.compiles and row.setup_s > 0:
            for text in _compiling(plan):
                self._setups[text] = max(self._setups.get(text, 0.0), row.setup_s)
        return math.log(over_training(math.exp(gain), row, self._aim.steps))

    def _race_other_settings(self) -> None:
        """Once a part is good, its other settings take part too."""
        model = self.race.model
        for part, settings in self._candidates.settings.items():
            new = {text for text in settings if text not in model.parts}
            if new and part in model.parts and (gain := model.gain(frozenset({part}))) > WORTH:
                self.race.add(dict.fromkeys(sorted(new), Prior(gain, OTHER_SETTING_SD)))


def _small_ones(candidates: Candidates) -> list[Choice]:
    """What may run where the cell does not: each part that saves memory, then all that go together."""
    parts = [part for part, plan in candidates.parts.items() if plan.saves_memory]
    together = NOTHING
    for part in parts:
        together = more if candidates.allows(more := together | {part}) else together
    alone = [frozenset({part}) for part in parts]
    return [*alone, together] if len(together) > 1 else alone


def _compiling(plan: Plan) -> list[str]:
    """The parts of a plan that compile."""
    return [str(Plan((entry,))) for entry in plan.entries if entry.layer == "compile"]
