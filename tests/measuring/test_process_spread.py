"""The spread between processes, learnt from all plans of a trial: what it covers, and how often it claims what is not there."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

from accel.measuring.comparison import WIDE
from accel.measuring.interval import DEFAULT_MALLOC_NOISE, STEADY_ALONE, STEADY_NOISE, interval, spread_of
from accel.measuring.verdict import FEW_RELAUNCHES
from accel.plans import Plan
from accel.workers.samples import Effort, Samples
from accel.workers.stage import Stage, StagePlan

PLANS = ("channels_last", "autocast", "set_to_none")


def relaunch(
    generator, plans, *, sd, effect=0.0, pairs=12, step_sd=0.02, longer=lambda generator, pairs: 0.0
):
    """Pairs of each plan: one process of the baseline for all, one of each plan's own.

    `longer` is by what (in logarithms) turns take longer than on a quiet machine: of the baseline, and of each plan.
    """
    base, base_longer = generator.normal(0, sd / math.sqrt(2)), longer(generator, pairs)
    biases = {plan: effect + base - generator.normal(0, sd / math.sqrt(2)) for plan in plans}
    return {
        plan: list(bias + generator.normal(0, step_sd, pairs) + base_longer - longer(generator, pairs))
        for plan, bias in biases.items()
    }


def busy_loop(generator, pairs):
    """A core is shared now and then: some turns take up to twice as long."""
    return generator.uniform(0, math.log(2), pairs) * (generator.random(pairs) < 0.5)


def burst(generator, pairs):
    """In every third relaunch or so, half of the turns are half as fast."""
    hit = generator.random() < 0.3
    return hit * math.log(2) * (generator.random(pairs) < 0.5)


def quota(generator, pairs):
    """Every fourth turn is stopped for as long as it takes."""
    return math.log(2) * (generator.random(pairs) < 0.25)


class Relaunched:
    """Stands for a relaunch of programs that are all the same."""

    others, least_s = None, 0.0

    def __init__(self, generator, variants, **trouble):
        plans = [variant.label for variant in variants[1:]]
        told = relaunch(generator, plans, **trouble)
        self.samples = {"baseline": Samples(step_ns=[1e6] * 12)}
        self.samples |= {
            plan: Samples(step_ns=[1e6 / math.exp(each) for each in told[plan]]) for plan in plans
        }

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        pass

    def measure(self, *given, **named):
        return self.samples


def stage_of(generator, noise, *, is_headline, deadline=math.inf, **trouble):
    """A stage that has run such relaunches."""
    plan = StagePlan(
        "a",
        "steady",
        tuple(map(Plan.parse, PLANS)),
        noise,
        FEW_RELAUNCHES,
        Effort(),
        is_headline,
        WIDE,
    )
    stage = Stage(
        plan, lambda variants: Relaunched(generator, variants, **trouble), stop=threading.Event(), on_change=lambda: None,
        deadline=deadline, measures_floor=False,
    )  # fmt: skip
    stage.run()
    return stage


def standings(generator, noise, **given):
    """What a stage makes of such relaunches."""
    return list(stage_of(generator, noise, **given).standings.values())


@pytest.mark.parametrize("sd", [0.01, 0.03, 0.1])
@pytest.mark.parametrize("noise", [DEFAULT_MALLOC_NOISE, STEADY_ALONE], ids=["malloc", "steady"])
def test_same_against_same_is_rarely_called_different(noise, sd):
    generator = np.random.default_rng(0)
    is_headline = noise is DEFAULT_MALLOC_NOISE
    found = [each for _ in range(150) for each in standings(generator, noise, sd=sd, is_headline=is_headline)]
    assert sum(each.verdict in ("faster", "slower") for each in found) / len(found) <= 0.07
    assert sum(each.shown.low <= 1 <= each.shown.high for each in found) / len(found) >= 0.93


@pytest.mark.parametrize("longer", [busy_loop, burst, quota])
def test_a_machine_in_trouble_makes_undecided_and_not_wrong(longer):
    generator = np.random.default_rng(0)
    found = [
        each
        for _ in range(150)
        for each in standings(generator, STEADY_ALONE, sd=0.011, is_headline=False, longer=longer)
    ]
    assert sum(each.verdict in ("faster", "slower") for each in found) / len(found) <= 0.07


def test_how_much_wider_trouble_makes_intervals_is_known():
    def widened(**trouble):
        found = [
            stage_of(np.random.default_rng(seed), STEADY_ALONE, sd=0.011, is_headline=False, **trouble)
            for seed in range(20)
        ]
        return np.median([stage.widened for stage in found])

    assert 0.7 < widened(step_sd=0.01) < 1.2
    assert widened(step_sd=0.01, longer=busy_loop) > 2


def test_what_was_left_undecided_goes_on_where_there_is_time_after_all():
    stage = stage_of(np.random.default_rng(0), STEADY_ALONE, sd=0.03, is_headline=False, deadline=-math.inf)
    assert {each.shown.relaunches for each in stage.standings.values()} == {1}
    undecided = [label for label, each in stage.standings.items() if each.verdict == "undecided"]
    assert undecided
    stage.go_on(math.inf)
    assert all(each.verdict for each in stage.standings.values())
    assert all(stage.standings[label].shown.relaunches > 1 for label in undecided)


def test_one_plan_tells_of_the_spread_what_its_own_relaunches_do():
    told = [relaunch(np.random.default_rng(number), ["autocast"], sd=0.05) for number in range(4)]
    alone = [each["autocast"] for each in told]
    assert spread_of(told, STEADY_NOISE).freedom == 3
    shared = interval(alone, STEADY_NOISE, spread=spread_of(told, STEADY_NOISE))
    assert shared.high == pytest.approx(interval(alone, STEADY_NOISE).high)


def test_other_plans_make_the_interval_of_two_relaunches_narrower():
    generator = np.random.default_rng(1)

    def half(plans):
        told = [relaunch(generator, plans, sd=0.03) for _ in range(2)]
        shown = interval(
            [each["autocast"] for each in told], STEADY_ALONE, spread=spread_of(told, STEADY_ALONE)
        )
        return math.log(shown.high / shown.low) / 2

    assert np.mean([half(PLANS) for _ in range(99)]) < 0.8 * np.mean([half(["autocast"]) for _ in range(99)])


def test_a_plan_that_was_decided_leaves_a_gap():
    generator = np.random.default_rng(2)
    told = [relaunch(generator, plans, sd=0.03) for plans in (PLANS, PLANS, PLANS[:2])]
    assert (
        spread_of(told, STEADY_NOISE).freedom == 5
    )  # of 11 processes: 4 programs and 2 more relaunches are fitted
    without = spread_of(told[:2], STEADY_NOISE)
    assert without.freedom == 3
    assert spread_of(told, STEADY_NOISE).squares > without.squares


def test_a_relaunch_whose_pairs_scatter_weighs_less():
    calm, torn = [math.log(2)] * 12, [math.log(4), math.log(1.1), math.log(6), math.log(5), math.log(0.9)]
    shown = interval([calm, torn], DEFAULT_MALLOC_NOISE)
    assert shown.ratio == pytest.approx(2, rel=0.05)
    assert shown.low > 1.5
