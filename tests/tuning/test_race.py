"""The search for a plan: what it asks for, what it believes, and that it finds plans whose parts work together."""

from __future__ import annotations

import math
from itertools import combinations

import pytest

from accel.tuning.gain_model import NOTHING, GainModel, Measured, Prior
from accel.tuning.memory_limit import MemoryLimit
from accel.tuning.race import Race

PARTS = "abcdef"


def of(*parts):
    return frozenset(parts)


def gain_of(alone, together=()):
    """A function of a choice: the sum of what its parts add, and its pairs."""
    pairs = {of(*pair): more for pair, more in dict(together).items()}
    return lambda choice: (
        sum(alone.get(part, 0.0) for part in choice)
        + sum(more for pair, more in pairs.items() if pair <= choice)
    )


def run(race, gain, error=0.005):
    rounds = []
    while choices := race.next_round():
        rounds.append(choices)
        race.take([Measured(choice, gain(choice), error) for choice in choices])
        assert len(rounds) < 60
    return rounds


def test_each_part_runs_alone_first():
    race = Race(dict.fromkeys(PARTS, Prior()), lambda choice: True)
    assert race.next_round() == [of(part) for part in PARTS]


def test_parts_that_help_are_put_together():
    race = Race(dict.fromkeys(PARTS, Prior()), lambda choice: True)
    run(race, gain_of({"a": 0.4, "c": 0.2, "d": -0.3}))
    assert {"a", "c"} <= race.leader
    assert "d" not in race.leader
    assert race.model.gain(race.leader) == pytest.approx(0.6, abs=0.03)
    assert "c" in race.best_of("bcd"), "the best of those without a"
    assert "a" not in race.best_of("bcd")


def test_a_race_that_was_cut_short_puts_together_what_helped_alone_and_nothing_unmeasured():
    race = Race(dict.fromkeys(PARTS, Prior(0.2, 0.3)), lambda choice: not of("a", "b") <= choice)
    gains = {"a": 0.3, "b": 0.25, "c": 0.1, "d": -0.1}
    race.take([Measured(of(part), gain, 0.01) for part, gain in gains.items()])
    race.take([Measured(of("e"), 0.0, 10.0)])  # it had no room, which tells nothing of its time
    assert race.leader == of("a")
    assert race.likely_of(PARTS) == of("a", "c")
    assert race.likely_of("bcd") == of("b", "c")
    assert race.in_order_of_gain(race.likely_of(PARTS)) == ["a", "c"]


def test_what_had_no_time_is_likely_all_the_same_and_nothing_that_holds_what_failed():
    race = Race(dict.fromkeys("abc", Prior()), lambda choice: True)
    race.take([Measured(of(part), 0.2, 0.01) for part in "abc"])
    race.leave_out(of("a", "b", "c"), for_time=True)
    assert race.likely_of("abc") == of("a", "b", "c")
    assert of("a", "b", "c") not in race.next_round()
    race.leave_out(of("a", "b"))
    assert race.likely_of("abc") in (of("a", "c"), of("b", "c"))


def test_of_two_parts_that_take_from_each_other_the_better_one_stays():
    race = Race(dict.fromkeys(PARTS, Prior()), lambda choice: True)
    run(race, gain_of({"a": 0.3, "b": 0.25}, {("a", "b"): -0.3}))
    assert race.leader & {"a", "b"} == {"a"}


def test_parts_that_only_help_together_are_found_where_both_come_up():
    race = Race(dict.fromkeys(PARTS, Prior()), lambda choice: True)
    run(race, gain_of({"a": 0.2, "b": -0.02}, {("a", "b"): 0.25}))
    assert {"a", "b"} <= race.leader


def test_parts_that_exclude_each_other_are_never_asked_for_together():
    race = Race(dict.fromkeys(PARTS, Prior()), lambda choice: not of("a", "b") <= choice)
    rounds = run(race, gain_of({"a": 0.3, "b": 0.35, "c": 0.1}))
    assert not any(of("a", "b") <= choice for choices in rounds for choice in choices)
    assert race.leader & {"a", "b"} == {"b"}


def test_nothing_leads_where_every_part_costs_time():
    race = Race(dict.fromkeys(PARTS, Prior()), lambda choice: True)
    run(race, gain_of(dict.fromkeys(PARTS, -0.1)))
    assert race.leader == NOTHING
    assert race.in_order_of_gain(race.leader) == []


def test_a_part_that_failed_comes_up_in_no_plan():
    race = Race(dict.fromkeys(PARTS, Prior()), lambda choice: True)
    race.next_round()
    race.leave_out(of("a"))
    race.take([Measured(of(part), 0.2, 0.01) for part in "bcdef"])
    assert not any("a" in choice for choice in race.next_round())


def test_a_plan_that_failed_is_not_asked_for_again_though_its_parts_are():
    race = Race(dict.fromkeys("ab", Prior()), lambda choice: True)
    race.take([Measured(of("a"), 0.2, 0.01), Measured(of("b"), 0.2, 0.01)])
    assert of("a", "b") in race.next_round()
    race.leave_out(of("a", "b"))
    assert of("a", "b") not in race.next_round()


def test_other_settings_that_come_later_run_alone_first_and_may_win():
    race = Race(dict.fromkeys("ab", Prior()), lambda choice: not of("a", "a2") <= choice)
    gain = gain_of({"a": 0.2, "b": 0.1, "a2": 0.4})
    run(race, gain)
    race.add({"a2": Prior(0.2, 0.15)})
    assert race.next_round() == [of("a2")]
    run(race, gain)
    assert race.leader == of("a2", "b")


def test_the_same_seed_asks_for_the_same_plans():
    asked = [run(Race(dict.fromkeys(PARTS, Prior()), lambda choice: True, seed=3), gain_of({"a": 0.1, "b": 0.05}))
             for _ in range(2)]  # fmt: skip
    assert asked[0] == asked[1]


def test_parts_are_put_in_the_order_of_what_they_add():
    race = Race(dict.fromkeys(PARTS, Prior()), lambda choice: True)
    run(race, gain_of({"a": 0.1, "b": 0.5, "c": 0.25}))
    assert race.in_order_of_gain(race.leader) == ["b", "c", "a"]


def test_a_plan_never_measured_is_known_by_its_parts_and_less_surely():
    model = GainModel(
        dict.fromkeys("ab", Prior()), [Measured(of("a"), 0.3, 0.01), Measured(of("b"), 0.2, 0.01)]
    )
    assert model.gain(of("a", "b")) == pytest.approx(0.5, abs=0.01)
    assert model.spread(of("a", "b")) > 3 * model.spread(of("a"))


def test_what_is_expected_holds_until_something_is_measured():
    expected = GainModel({"a": Prior(math.log(1.5), 0.1)}, [])
    assert expected.gain(of("a")) == pytest.approx(math.log(1.5))
    measured = GainModel({"a": Prior(math.log(1.5), 0.1)}, [Measured(of("a"), 0.0, 0.01)])
    assert abs(measured.gain(of("a"))) < 0.02


def test_what_runs_out_of_memory_alone_may_run_with_what_saves_memory():
    limit = MemoryLimit(1000)
    for choice, peak in ((NOTHING, 900), (of("a"), math.inf), (of("b"), 450)):
        limit.take(choice, peak)
    assert limit.expected(of("a", "b")) == 450
    assert not limit.fits(of("a"))


def test_a_limit_of_memory_is_kept_by_the_fastest_that_fits():
    limit = MemoryLimit(1000)
    race = Race(dict.fromkeys(PARTS, Prior()), lambda choice: True, priced=limit.priced)
    takes = {"a": 1.5, "b": 0.6, "c": 0.7, "d": 0.4}
    peak = lambda choice: 1500 * math.prod(takes.get(part, 1.0) for part in choice)
    gain = gain_of({"a": 0.5, "b": -0.3, "c": -0.1, "d": -0.9, "e": 0.2})
    while choices := race.next_round():
        limit.take(NOTHING, 1500)
        for choice in choices:
            limit.take(choice, peak(choice))
        race.take([Measured(choice, gain(choice), 0.005) for choice in choices])
    plans = [of(*parts) for size in range(7) for parts in combinations(PARTS, size)]
    fitting = [plan for plan in plans if peak(plan) <= 1000]
    best = max(
        fitting, key=lambda plan: (round(gain(plan), 9), -len(plan))
    )  # the one without what adds nothing
    assert best == of("a", "b", "c", "e"), "two that save memory make room for what is fast and large"
    assert race.leader - {"f"} == best
    assert race.in_order_of_gain(race.leader)[0] in "bcd"


def test_what_a_plan_takes_is_expected_from_its_parts_until_it_is_measured():
    limit = MemoryLimit(1000)
    assert math.isnan(limit.expected(of("a")))
    assert limit.price(of("a")) == 0
    for choice, peak in ((NOTHING, 2000), (of("a"), 1500), (of("b"), 1200)):
        limit.take(choice, peak)
    assert limit.expected(of("a", "b", "unknown")) == pytest.approx(900)
    assert limit.fits(of("a", "b"))
    limit.take(of("a", "b"), 1100)
    assert not limit.fits(of("a", "b"))
    assert limit.price(of("a")) > limit.price(of("a", "b")) > 0


def test_where_nothing_but_one_part_runs_others_may_run_with_it():
    limit = MemoryLimit(1000)
    limit.take(NOTHING, math.inf)
    limit.take(of("a"), math.inf)
    limit.take(of("b"), 900)
    assert limit.expected(of("a", "b")) == 900
    assert limit.fits(of("a", "b"))
    assert not limit.fits(of("c"))
