"""One verdict a plan, from one measurement, in words that claim no more than the interval carries."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.measuring.comparison import Comparison, Interval, Quality
from accel.measuring.ladder import Ladder, speed
from accel.views import ladder as views_ladder

TIGHT_STEADY = Interval(1.44, 1.42, 1.46, 2, 90)


def row(verdict, low, high, *, plan="channels_last", **fields):
    shown = Interval((low * high) ** 0.5, low, high, 3, 60)
    quality = Quality("follows", 1e-3, 2e-3, 40)
    return Comparison(plan, verdict, shown, TIGHT_STEADY, quality, "close", **fields)


def ladder(*rows):
    return Ladder(rows, 20.0, "a machine", "an allocator")


@pytest.mark.parametrize(
    ("verdict", "low", "high", "says"),
    [
        ("faster", 1.88, 1.99, "1.93× [1.88, 1.99] faster"),
        ("faster", 1.17, 18.53, "at least 1.1× faster [1.17, 18.53]"),
        ("faster", 1.29, 1.91, "at least 1.2× faster [1.29, 1.91]"),
        ("faster", 1.058, 1.9, "at least 1.05× faster [1.06, 1.90]"),
        ("slower", 0.78, 0.82, "slower: 0.80× [0.78, 0.82] of the baseline's speed"),
        ("slower", 0.3, 0.84, "slower: at most 0.9× the baseline's speed [0.30, 0.84]"),
        ("faster", 1.003, 1.7, "faster, perhaps by less than 1 % [1.00, 1.70]"),
        ("slower", 0.5, 0.996, "slower, perhaps by less than 1 % [0.50, 1.00]"),
        ("undecided", 0.26, 3.78, "undecided: between 0.26× and 3.78×"),
        ("no difference", 0.99, 1.01, "no difference found: 1.00× [0.99, 1.01]"),
    ],
)
def test_the_sentence_says_what_to_expect(verdict, low, high, says):
    assert row(verdict, low, high).sentence == says


@given(st.floats(1.01, 50), st.floats(1.0, 20))
def test_what_is_claimed_of_a_faster_plan_never_lies_outside_its_interval(low, factor):
    shown = Interval(low * factor**0.5, low, low * factor, 1, 10)
    assert shown.low <= shown.carried <= shown.high
    if shown.is_wide:
        claimed = float(
            dataclasses.replace(row("faster", 1.1, 1.2), headline=shown).sentence.split("×")[0].split()[-1]
        )
        assert 1 <= claimed <= shown.low


def test_a_trial_under_way_shows_no_figure_of_the_steady_stage():
    running = dataclasses.replace(row("undecided", 1.0, 2.0), headline=None, state="confirming")
    assert running.sentence == "confirming …"
    assert "×" not in str(ladder(running))
    stopped = dataclasses.replace(running, verdict="faster", state="stopped")
    assert "stopped before it was decided" in stopped.sentence
    assert ladder(stopped).best is None


def test_what_is_shown_while_it_runs_has_its_interval():
    assert row("undecided", 1.2, 1.3, state="confirming").sentence == "1.25× [1.20, 1.30] so far"
    assert row("undecided", 1.0, 4.0, state="confirming").sentence == "between 1.00× and 4.00× so far"


@pytest.mark.parametrize("verdict", ["faster", "slower", "undecided", "no difference"])
def test_a_row_has_one_figure_and_the_other_stage_is_only_in_the_dictionary(verdict):
    text = str(ladder(row(verdict, 0.9, 1.1)))
    assert "1.44" not in text
    assert "steady" not in text
    assert ladder(row(verdict, 0.9, 1.1)).to_dict()["rows"][0]["steady"]["ratio"] == 1.44


def test_a_wide_interval_does_not_win_over_one_that_carries_more():
    wide, tight = row("faster", 1.17, 18.53), row("faster", 1.88, 1.99, plan="autocast")
    assert ladder(wide, tight).best is tight
    assert speed(wide) == 1.17


def test_a_long_plan_may_go_on_in_the_next_line_so_that_its_table_fits_a_narrow_notebook():
    shown = views_ladder.html(ladder(row("faster", 1.88, 1.99, plan="autocast+<b>+fused_optimizer")))
    assert "autocast+<wbr>&lt;b&gt;+<wbr>fused_optimizer" in shown
