"""The interval over relaunches, and the verdict drawn from it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from accel.measuring.comparison import Interval
from accel.measuring.interval import (
    DEFAULT_MALLOC_NOISE,
    STEADY_NOISE,
    interval,
    paired_log_ratios,
    student_quantile,
)
from accel.measuring.verdict import confidence_shown, confidence_to_stop, decide, is_look


def relaunch(generator, effect, *, pairs=60, process_sd=0.011, step_sd=0.05):
    """One relaunch as the machine gives them: a bias of the process, noise of the steps, now and then a pre-empted step."""
    ratios = math.log(effect) + generator.normal(0, process_sd) + generator.normal(0, step_sd, pairs)
    struck = generator.random(pairs) < 0.05  # either of the two steps
    return list(ratios + struck * generator.choice([-1.0, 1.0], pairs))


def verdict_of(generator, effect, *, noise=STEADY_NOISE, most=4, pairs=60):
    relaunches = []
    for number in range(1, most + 1):
        relaunches.append(tuple(relaunch(generator, effect, pairs=pairs, process_sd=noise.sd)))
        if number < most and not is_look(number):
            continue  # it would decide nothing but "no difference"
        shown = interval(relaunches, noise, confidence=confidence_shown(number))
        strict = interval(relaunches, noise, confidence=confidence_to_stop(number))
        verdict = decide(shown, strict, is_last=number == most)
        if verdict is not None:
            return verdict
    raise AssertionError("the last look must decide")


def test_pairs_are_logs_of_baseline_over_candidate():
    assert paired_log_ratios([20.0, 30.0], [10.0, 30.0]) == [math.log(2), 0.0]


def test_the_ratio_is_that_of_the_medians_and_lies_inside_its_interval():
    shown = interval([[math.log(2)] * 20] * 3, STEADY_NOISE)
    assert shown.ratio == pytest.approx(2)
    assert shown.low < 2 < shown.high
    assert (shown.relaunches, shown.pairs) == (3, 60)


def test_more_relaunches_make_the_interval_narrower():
    generator = np.random.default_rng(1)
    relaunches = [relaunch(generator, 1.0) for _ in range(6)]
    widths = [interval(relaunches[:n], STEADY_NOISE) for n in (1, 3, 6)]
    assert widths[0].high - widths[0].low > widths[1].high - widths[1].low > widths[2].high - widths[2].low


def test_one_relaunch_under_default_malloc_says_less_than_one_under_a_steady_allocator():
    ratios = [relaunch(np.random.default_rng(2), 1.0)]
    wide, tight = interval(ratios, DEFAULT_MALLOC_NOISE), interval(ratios, STEADY_NOISE)
    assert wide.high / wide.low > 1.3 > tight.high / tight.low


def test_the_95_percent_interval_covers_the_truth_about_95_times_in_100():
    generator = np.random.default_rng(3)
    covered = 0
    for _ in range(400):
        shown = interval([relaunch(generator, 1.2) for _ in range(3)], STEADY_NOISE)
        covered += shown.low <= 1.2 <= shown.high
    assert covered / 400 > 0.92


def test_identical_programs_are_rarely_called_different():
    generator = np.random.default_rng(4)
    verdicts = [verdict_of(generator, 1.0) for _ in range(300)]
    assert sum(verdict in ("faster", "slower") for verdict in verdicts) / 300 < 0.05


@pytest.mark.parametrize("most", [6, 60])
def test_identical_programs_are_rarely_called_different_however_long_a_budget_lasts(most):
    generator = np.random.default_rng(most)
    verdicts = [
        verdict_of(generator, 1.0, noise=DEFAULT_MALLOC_NOISE, most=most, pairs=2) for _ in range(150)
    ]
    assert sum(verdict in ("faster", "slower") for verdict in verdicts) / 150 < 0.08


def test_a_true_five_percent_is_usually_found():
    generator = np.random.default_rng(5)
    verdicts = [verdict_of(generator, 1.05) for _ in range(200)]
    assert verdicts.count("faster") / 200 > 0.8
    assert "slower" not in verdicts


def test_a_slow_down_is_called_slower():
    assert verdict_of(np.random.default_rng(6), 0.6) == "slower"


def test_a_difference_within_the_tolerance_is_no_difference_even_when_it_is_certain():
    narrow = Interval(1.01, 1.005, 1.015, 3, 300)
    assert decide(narrow, narrow, is_last=True) == "no difference"


def test_what_stays_open_at_the_last_look_is_undecided():
    wide = Interval(1.02, 0.9, 1.15, 3, 30)
    assert decide(wide, wide, is_last=False) is None
    assert decide(wide, wide, is_last=True) == "undecided"


@pytest.mark.parametrize(
    ("probability", "freedom", "table"),
    [
        (0.975, 1, 12.7062), (0.975, 2, 4.30265), (0.975, 4, 2.77645), (0.975, 10, 2.22814), (0.975, 30, 2.04227),
        (0.999, 5, 5.89343), (0.999, 1, 318.309), (0.9975, 10, 3.58141), (0.025, 4, -2.77645), (0.5, 7, 0.0),
    ],
)  # fmt: skip
def test_student_quantiles_agree_with_the_tables(probability, freedom, table):
    assert student_quantile(probability, freedom) == pytest.approx(table, rel=1e-5, abs=1e-9)
