"""What is proven of a plan that changes training, and the sentences for what is not."""

from __future__ import annotations

import pytest

from accel.measuring.equal_quality import EqualQuality
from accel.measuring.time_to_quality import TimeToQuality
from accel.measuring.training_curve import QualityPoint, QualityRow, TrainingCurve

TRAINED_S = 10.0


def falling(speed, *, last=None, seeds=3, ending="budget spent"):
    """Trainings whose loss falls from 2 by 0.1 a second and unit of speed; `last` is the value in the end where it is another."""
    curves = []
    for seed in range(seeds):
        at = [TRAINED_S * place / 50 for place in range(51)]
        values = [2 + 0.01 * seed - 0.1 * speed * seconds for seconds in at]
        values[-1] = values[-1] if last is None else last
        points = tuple(
            QualityPoint(s, 10 * n, value) for n, (s, value) in enumerate(zip(at, values, strict=True))
        )
        curves.append(TrainingCurve(seed, points, TRAINED_S, 500, ending=ending))
    return tuple(curves)


def compared(than=("baseline",), keep_quality=0.0, **rows):
    made = [QualityRow("baseline", "exact", falling(1.0))]
    made += [QualityRow(plan, "changes training", curves) for plan, curves in rows.items()]
    result = TimeToQuality(
        tuple(made), "loss", "loss: mean of criterion on val_loader.", False, None, TRAINED_S, "a machine"
    )
    return EqualQuality("quick", than, keep_quality, result)


def test_a_plan_that_comes_to_the_baselines_loss_sooner_is_proven():
    found = compared(quick=falling(1.5))
    assert found.is_proven
    assert found.gain == pytest.approx(1.5, rel=0.02)
    assert found.sentence.startswith("reaches the baseline's loss 1.50× sooner [1.4")
    assert "10 s of training for each, 3 seeds" in found.how


def test_it_is_also_compared_with_the_best_that_leaves_training_as_it_is():
    slower = compared(("baseline", "exact"), quick=falling(1.5), exact=falling(2.0))
    assert not slower.is_proven
    assert "the baseline's loss sooner than exact: later: takes 1.33× as long" in slower.sentence
    faster = compared(("baseline", "exact"), quick=falling(1.5), exact=falling(1.2))
    assert faster.is_proven
    assert "1.25× sooner [1.2" in faster.sentence
    assert faster.sentence.endswith("than exact")


def test_a_loss_that_is_passed_and_lost_again_proves_nothing():
    found = compared(quick=falling(1.5, last=1.5))
    assert found.answer("baseline").verdict == "sooner"
    assert not found.is_proven
    assert "after equal seconds it is worse: loss +0.49" in found.sentence
    assert compared(quick=falling(1.5, last=1.1), keep_quality=0.2).is_proven


def test_a_loss_that_may_be_higher_is_higher_for_both():
    found = compared(quick=falling(0.95), keep_quality=0.2)
    assert not found.is_proven, "it would be sooner only by a goal that is easier for it alone"
    assert "the baseline's loss plus 20 % sooner" in found.sentence


def test_one_that_does_not_come_there_or_diverges_is_said_in_these_words():
    assert "not reached within 10 s of training" in compared(quick=falling(0.5)).sentence
    diverged = compared(quick=falling(1.5, ending="diverged"))
    assert not diverged.is_proven
    assert "diverged in 3 of 3 seeds" in diverged.sentence


def test_two_seeds_and_a_comparison_that_is_not_over_prove_nothing():
    few = compared(quick=falling(1.5, seeds=2))
    assert not few.is_proven
    assert "too few seeds; a longer --budget-s tells more" in few.sentence
    going_on = EqualQuality("quick", ("baseline",), is_over=False)
    assert not going_on.is_proven
    assert going_on.sentence == "it changes training; its quality is being compared"
