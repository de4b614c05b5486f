"""What the history shows: trials, and predictions beside what was measured, with how good they have been."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from accel.history import PastPredictions, PastTrials
from accel.views.past_predictions import NONE_YET
from tests.history.test_history_store import PREDICTION, TRIAL


def of(predictions, trials):
    return PastPredictions.of(predictions, trials, file="history.sqlite")


def test_a_prediction_is_joined_with_the_last_trial_of_its_plan_on_its_workload():
    other = replace(TRIAL, profile="b", ratio=9.0)
    past = of([PREDICTION], [replace(TRIAL, ratio=1.1), TRIAL, other, replace(TRIAL, plan="autocast")])
    assert past.rows[0].measured == TRIAL


@pytest.mark.parametrize(
    ("predicted", "measured", "said"),
    [
        (
            {"live": "fused_optimizer"},
            {},
            "predicted with fused_optimizer kept, measured against nothing kept",
        ),
        (
            {},
            {"live": "steady_allocator"},
            "predicted with nothing kept, measured against steady_allocator kept",
        ),
        ({"live": "?"}, {"live": "?"}, "what was kept is not on record"),
        (
            {},
            {"where_measured": "steady allocator"},
            "measured with a steady allocator, not as the notebook runs",
        ),
    ],
)
def test_a_trial_of_another_quantity_is_shown_but_does_not_score_the_prediction(predicted, measured, said):
    past = of([replace(PREDICTION, **predicted)], [replace(TRIAL, **measured)])
    row = past.rows[0]
    assert row.why_not_scored == said
    assert (row.is_inside, math.isnan(row.error), past.measured, math.isnan(past.inside_share)) == (
        False,
        True,
        (),
        True,
    )
    assert f"measured 1.30× [1.20, 1.40]  not scored: {said}" in str(past)
    assert "none of them scored yet" in past.sentence
    assert past.by_kind[0][1:3] == (1, 0)
    assert past.to_dict()["predictions"][0]["why_not_scored"] == said


def test_seconds_to_a_quality_do_not_score_a_prediction_of_the_step():
    past = of([PREDICTION], [replace(TRIAL, asked="accuracy>=0.95")])
    assert not past.rows[0].is_measured


def test_a_trial_by_quality_tells_seconds_and_quality_side_by_side():
    by_quality = replace(
        TRIAL, verdict="sooner", asked="accuracy>=0.95", seconds=3.2, baseline_seconds=4.5, seeds=3.0,
        quality="accuracy 0.953, 0.951 without",
    )  # fmt: skip
    one_seed = replace(by_quality, verdict="undecided", low=math.nan, high=math.nan, seeds=1.0)
    compiled = replace(TRIAL, plan="compile_model", break_even_steps=1300.0)
    first, second, third = str(PastTrials((by_quality, one_seed, compiled), "history.sqlite")).splitlines()[
        :3
    ]
    assert "sooner: 1.30× [1.20, 1.40]" in first
    assert "accuracy>=0.95: 3.2 s, 4.5 s without; 3 seeds; accuracy 0.953, 0.951 without" in first
    assert "undecided: about 1.30×, too few seeds for an interval" in second
    assert "1 seed;" in second
    assert "same; pays off after 1,300 steps" in third


def test_a_trial_that_measured_the_same_quantity_is_taken_before_a_later_one_of_another():
    fitting = replace(TRIAL, live="steady_allocator", ratio=1.2)
    past = of([replace(PREDICTION, live="steady_allocator")], [fitting, TRIAL])
    assert past.rows[0].measured == fitting
    assert past.rows[0].is_inside


def test_the_share_inside_and_the_median_error_are_of_those_that_were_tried():
    names = [("a", 1.4), ("b", 2.8), ("c", 1.12), ("d", math.nan)]
    predictions = [replace(PREDICTION, profile=name) for name, _ in names] + [
        replace(PREDICTION, profile="e")
    ]
    past = of(predictions, [replace(TRIAL, profile=name, ratio=ratio) for name, ratio in names])
    assert len(past.measured) == 3
    assert past.inside_share == pytest.approx(2 / 3)
    assert past.median_error == pytest.approx(0.25)  # 1.4 for 1.12; none for 1.4, twofold for 2.8
    assert "2 of 3 measured speed-ups (67 %)" in str(past)
    assert "median error 25 %" in str(past)


def test_an_error_counts_alike_in_both_directions():
    half, double = (
        of([PREDICTION], [replace(TRIAL, ratio=1.4 * factor)]).median_error for factor in (0.5, 2)
    )
    assert half == pytest.approx(double) == pytest.approx(1.0)


def test_predictions_are_told_by_kind():
    past = of([PREDICTION, replace(PREDICTION, kind="copy_bound", plan="", profile="z")], [TRIAL])
    assert [(kind, count, tried) for kind, count, tried, _, _ in past.by_kind] == [
        ("input_bound", 1, 1),
        ("copy_bound", 1, 0),
    ]
    assert "(an edit)" in str(past)


def test_everything_shows_in_text_html_tables_and_json():
    past, trials = (
        of([PREDICTION], [TRIAL]),
        PastTrials((TRIAL, replace(TRIAL, ratio=math.nan, verdict="failed")), "f"),
    )
    assert "predicted 1.40× [1.10, 1.60]  measured 1.30× [1.20, 1.40]  inside" in str(past)
    assert "faster: 1.30× [1.20, 1.40]" in str(trials)
    assert "nan" not in str(trials)
    for shown in (past, trials):
        assert "loader_workers" in shown._repr_mimebundle_()["text/html"]
        assert json.loads(json.dumps(shown.to_dict(), allow_nan=False))
        assert len(shown.to_dataframe()) == len(shown.rows)


def test_names_are_escaped_in_html():
    rude = replace(TRIAL, described="<script>")
    assert "<script>" not in PastTrials((rude,), "f")._repr_mimebundle_()["text/html"]


def test_an_empty_history_says_how_it_fills_and_one_that_is_off_says_so():
    assert NONE_YET in str(of([], []))
    assert "ACCEL_HISTORY is off" in str(PastTrials((), ""))
    assert "ACCEL_HISTORY is off" in PastPredictions((), "")._repr_mimebundle_()["text/html"]


def test_predictions_stand_below_each_other_and_what_was_not_tried_was_not_measured():
    plans = ("fused_optimizer", "autocast")
    told = str(of([replace(PREDICTION, plan=plan) for plan in plans], []))
    lines = [line for line in told.splitlines() if "not tried" in line]
    assert len(lines) == 2
    assert len({line.index("predicted") for line in lines}) == 1
    assert "measured not tried" not in told
