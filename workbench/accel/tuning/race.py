"""Which plans to measure next: a race of plans, run by draws from what the measurements leave possible.

First every part runs alone, all against one baseline. From then on each round measures the plans that are best in some
draws from the model of gains (Thompson sampling): a part that may help comes up again, next to others, a part that cannot
does not. The race is over when hardly a draw has a plan that is worth changing to. `benchmarks/tuner.py` compares this with
successive halving, with adding one part after the other, and with plans at random (decision 22).

Source: Thompson, "On the likelihood that one unknown probability exceeds another", Biometrika 1933; Russo et al., "A
Tutorial on Thompson Sampling", 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np

from accel.tuning.gain_model import NOTHING, Choice, GainModel, Gains, Measured, Prior

WORTH = 0.03  # of log speed-up: a plan that adds less is not worth another round
DRAWS = 40  # possible models that decide whether the race is over
SURE = 0.1  # share of the draws that may still have something better
TELLS = 1.0  # standard error of a log speed-up: a measurement with a larger one has seen nothing run


class Race:
    """Asks for plans by `next_round`, takes what was measured by `take`, and knows the `leader`.

    Args:
        parts: What a plan can be made of, with what is expected of each.
        allowed: Whether these parts can be in one plan.
        priced: Gains as the race is to see them: less what plans cost elsewhere, such as memory above a limit.
        width: Plans a round, once each part was measured alone.
        seed: Of the draws: the same race again from the same measurements.

    >>> race = Race({"a": Prior(), "b": Prior()}, allowed=lambda choice: True)
    >>> while plans := race.next_round():
    ...     race.take(measure(plan) for plan in plans)
    >>> race.leader
    frozenset({'a', 'b'})
    """

    def __init__(
        self, parts: Mapping[str, Prior], allowed: Callable[[Choice], bool], *,
        priced: Callable[[Gains], Gains] = lambda gains: gains, width: int = 4, seed: int = 0,
    ) -> None:  # fmt: skip
        self._parts, self._is_allowed, self._priced, self._width = dict(parts), allowed, priced, width
        self._random = np.random.default_rng(seed)
        self._measured: list[Measured] = []
        self._model: GainModel | None = None  # of these parts and measurements; None: they are others now
        self._allowed: dict[Choice, bool] = {}
        self._failed: set[Choice] = set()
        self._late: set[Choice] = set()

    def next_round(self) -> list[Choice]:
        """The plans to measure next, against one baseline; empty when nothing better is to be expected."""
        known = {each.choice for each in self._measured} | self._failed | self._late
        alone = [frozenset({part}) for part in self._parts]
        unknown = [choice for choice in alone if choice not in known and self._fits(choice)]
        return unknown or self._drawn_round()

    def take(self, measured: Iterable[Measured]) -> None:
        """What a round gave; a plan may be measured several times."""
        self._measured += measured
        self._model = None

    def leave_out(self, choice: Choice, *, for_time: bool = False) -> None:
        """This plan is not to be asked for again (it failed, its loss drifts); of one part alone, the part is out.

        One that only had no time (`for_time`) may still be `likely`.
        """
        (self._late if for_time else self._failed).add(choice)
        self._allowed.clear()

    def add(self, parts: Mapping[str, Prior]) -> None:
        """More parts, such as other settings of one that is good; each is measured alone first."""
        self._parts |= parts
        self._allowed.clear()
        self._model = None

    @property
    def model(self) -> GainModel:
        """What is known of all plans now."""
        if self._model is None:
            self._model = GainModel(self._parts, self._measured)
        return self._model

    @property
    def _expected(self) -> Gains:
        return self._priced(self.model.expected())

    @property
    def leader(self) -> Choice:
        """The best of the plans that were measured, and of nothing at all."""
        return self.best_of(self._parts)

    def best_of(self, parts: Collection[str]) -> Choice:
        """The best of the plans that were measured and are made of these parts alone."""
        among = frozenset(parts)
        measured = {
            each.choice for each in self._measured if each.choice <= among and self._fits(each.choice)
        }
        return max([NOTHING, *sorted(measured, key=sorted)], key=self._expected.of)

    def likely_of(self, parts: Collection[str]) -> Choice:
        """What is expected to be the best, measured or not, of these parts, as far as they were measured."""
        known = frozenset[str]().union(*(each.choice for each in self._measured if each.error < TELLS))
        among = sorted(known.intersection(parts))
        return self._best_in(self._expected, self.best_of(among), among, self._may_run)

    def in_order_of_gain(self, choice: Choice) -> list[str]:
        """The parts of a plan, the one that adds most first; without those that hardly add anything."""
        gains, left, order = self._expected, set(choice), list[str]()
        while left:
            so_far = gains.of(frozenset(order))
            added = {part: gains.of(frozenset({*order, part})) - so_far for part in sorted(left)}
            best = max(added, key=lambda part: added[part])
            order.append(best)
            left.remove(best)
        while order and gains.of(frozenset(order)) - gains.of(frozenset(order[:-1])) < WORTH / 3:
            order.pop()
        return order

    def _drawn_round(self) -> list[Choice]:
        if not self._measured:
            return []
        leader = self.leader
        draws = list(map(self._priced, self.model.drawn(DRAWS, self._random)))
        parts = list(self._parts)
        best = [self._best_in(gains, leader, parts, self._fits) for gains in draws]
        gained = [gains.of(choice) - gains.of(leader) for gains, choice in zip(draws, best, strict=True)]
        if sum(gain > WORTH for gain in gained) <= SURE * DRAWS:
            return []
        counts = {choice: best.count(choice) for choice in best if choice}
        expected = self._best_in(self._expected, leader, parts, self._fits)
        first = [choice for choice in (expected, leader) if choice]
        often = sorted(counts, key=lambda choice: (-counts[choice], sorted(choice)))
        return list(dict.fromkeys([*first, *often]))[: self._width]

    def _best_in(
        self, gains: Gains, start: Choice, among: list[str], fits: Callable[[Choice], bool]
    ) -> Choice:
        """The best plan under known gains, of these parts: change by change from two starts, while it helps."""
        ends = [_climbed(gains, each, among, fits) for each in (start, NOTHING)]
        return max(ends, key=gains.of)

    def _fits(self, choice: Choice) -> bool:
        """Whether it can be run and asked for: nothing in it is out."""
        if choice not in self._allowed:
            out = self._failed | self._late
            is_out = choice in out or any(frozenset({part}) in out for part in choice)
            self._allowed[choice] = not is_out and (not choice or self._is_allowed(choice))
        return self._allowed[choice]

    def _may_run(self, choice: Choice) -> bool:
        """Whether it can be run, and nothing that failed is in it; what had no time is no reason against it."""
        return not any(failed <= choice for failed in self._failed) and (
            not choice or self._is_allowed(choice)
        )


def _climbed(gains: Gains, choice: Choice, among: list[str], fits: Callable[[Choice], bool]) -> Choice:
    """From this plan on, change by change, as far as each helps."""
    while True:
        changes = gains.changes(choice)
        helping = [part for part in sorted(among, key=lambda part: -changes[part]) if changes[part] > 0]
        changed = next((choice ^ {part} for part in helping if fits(choice ^ {part})), None)
        if changed is None:
            changed = _swapped(gains, choice, among, fits)
        if changed is None:
            return choice
        choice = changed


def _swapped(gains: Gains, choice: Choice, among: list[str], fits: Callable[[Choice], bool]) -> Choice | None:
    """Better by one part in place of another, where the two exclude each other; None where nothing is."""
    for new in among:
        if new in choice or fits(choice | {new}):
            continue
        for old in sorted(choice):
            changed = choice - {old} | {new}
            if fits(changed) and gains.of(changed) > gains.of(choice) + 1e-9:
                return changed
    return None
