"""One verdict a plan, from one measurement, in words that claim no more than the interval carries."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

import accel
from accel.measuring.comparison import Comparison, Interval, Quality
from accel.measuring.ladder import Ladder, speed
from accel.measuring.took import Took
from accel.shown import in_full

TIGHT_STEADY = Interval(1.44, 1.42, 1.46, 2, 90)


def row(verdict, low, high, *, plan="channels_last", **fields):
    shown = Interval((low * high) ** 0.5, low, high, 3, 60)
    quality = Quality("follows", 1e-3, 2e-3, 40)
    return Comparison(plan, verdict, shown, TIGHT_STEADY, quality, "close", **fields)


def ladder(*rows):
    return Ladder(rows, 20.0, "a machine", "an allocator")


@pytest.mark.parametrize(
    ("verdict", "low", "high", "says", "in_short"),
    [
        ("faster", 1.88, 1.99, "1.93× [1.88, 1.99] faster", "1.8 to 2.0× faster"),
        ("faster", 1.17, 18.53, "at least 1.1× faster [1.17, 18.53]", "at least 1.1× faster"),
        ("faster", 1.29, 1.91, "at least 1.2× faster [1.29, 1.91]", "at least 1.2× faster"),
        ("faster", 1.058, 1.9, "at least 1.05× faster [1.06, 1.90]", "at least 1.05× faster"),
        ("slower", 0.78, 0.82, "slower: 0.80× [0.78, 0.82] of the baseline's speed", "slower: 0.78 to 0.82×"),
        ("slower", 0.3, 0.84, "slower: at most 0.9× the baseline's speed [0.30, 0.84]", "slower: 0.30 to 0.84×"),
        ("faster", 1.003, 1.7, "faster, perhaps by less than 1 % [1.00, 1.70]", "faster, perhaps by less than 1 %"),
        ("slower", 0.5, 0.996, "slower, perhaps by less than 1 % [0.50, 1.00]", "slower: 0.50 to 1.00×"),
        ("undecided", 0.26, 3.78, "undecided: between 0.26× and 3.78×", "undecided: 0.26 to 3.78×"),
        ("no difference", 0.99, 1.01, "no difference found: 1.00× [0.99, 1.01]", "no difference found: 0.99 to 1.01×"),
    ],
)  # fmt: skip
def test_sentence_and_phrase_say_what_to_expect(verdict, low, high, says, in_short):
    assert row(verdict, low, high).sentence == says
    assert row(verdict, low, high).phrase == in_short


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


WITHOUT_EFFECT = {"proofs": (("channels_last", False, "no weight is"),)}
OTHER_BATCHES = {
    "quality": Quality("other batches"),
    "effect": "changes training",
    "samples_per_step": (64, 128),
}
FAILED = {"headline": None, "steady": None, "state": "failed", "error": "it died"}
COMPARE = "compare the quality reached (--until) before you keep it."


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([("faster", 1.88, 1.99, {})], "Keep channels_last: 1.8 to 2.0× faster, loss follows."),
        ([("faster", 1.058, 1.1, {})], "Keep channels_last: 1.05 to 1.10× faster, loss follows."),
        ([("faster", 1.003, 1.04, {})], "Keep channels_last: up to 1.04× faster, loss follows."),
        ([("faster", 1.2, 2.9, {}), ("slower", 0.7, 0.8, {})], "Keep channels_last: at least 1.2× faster, loss follows."),
        ([("faster", 1.3, 1.4, {"how_to_keep": "Put %%accel ddp over it."})],
         "channels_last is 1.3 to 1.4× faster, loss follows. Put %%accel ddp over it."),
        ([("faster", 1.3, 1.4, {"break_even_steps": 1200})],
         "Keep channels_last: 1.3 to 1.4× faster from step 1,200 on, loss follows."),
        ([("faster", 1.3, 1.4, {"quality": Quality("drifts", 0.3)})],
         f"channels_last is 1.3 to 1.4× faster, but its loss drifts: {COMPARE}"),
        ([("faster", 1.8, 2.0, OTHER_BATCHES)],
         f"channels_last is 1.8 to 2.0× faster per sample, but it changes the training: {COMPARE}"),
        ([("faster", 1.3, 1.4, WITHOUT_EFFECT)],
         "channels_last measured 1.3 to 1.4× faster, but channels_last did not take effect: keep your cell as it is."),
        ([("undecided", 0.97, 1.24, {}), ("slower", 0.7, 0.8, {})],
         "channels_last may be faster, but it is undecided: between 0.97× and 1.24×. --budget-s 240 decides."),
        ([("undecided", 0.9, 1.01, {})], "channels_last is not proven faster: keep your cell as it is."),
        ([("no difference", 0.99, 1.01, {})], "channels_last makes no difference: keep your cell as it is."),
        ([("slower", 0.7, 0.8, {}), ("no difference", 0.99, 1.01, {}), ("undecided", 1, 1, FAILED)],
         "None of 3 plans is faster (1 could not be measured): keep your cell as it is."),
        ([("undecided", 1, 1, FAILED)], "channels_last was not measured: it failed."),
        ([("faster", 1.3, 1.4, {"state": "confirming"})], ""),
    ],
)  # fmt: skip
def test_the_summary_says_what_to_do_and_recommends_nothing_that_is_not_proven_or_changes_training(
    rows, says
):
    made = [dataclasses.replace(row(*ends), **changed) for *ends, changed in rows]
    took = Took(38.0, 40.0, (), "the time was up", "--budget-s 240 decides.")
    tried = dataclasses.replace(ladder(*made), took=took)
    assert tried.summary == says
    assert (tried.best is not None) == ("loss follows" in says or not says)


FOUR = ladder(
    row("faster", 1.88, 1.99, plan="autocast+<b>+fused_optimizer+steady_allocator+channels_last", notes=("a note",)),
    row("slower", 0.7, 0.8, plan="compile_model", **WITHOUT_EFFECT),
    row("undecided", 0.9, 40.0, plan="set_to_none"),
    dataclasses.replace(row("undecided", 1, 1, plan="prune"), **{**FAILED, "error": "it raised " * 30}),
)  # fmt: skip


def test_a_terminal_gets_one_screen_with_every_verdict_and_print_gets_all():
    shown = FOUR._repr_mimebundle_()["text/plain"].splitlines()
    assert len(shown) <= 24
    assert max(map(len, shown)) <= 100
    for each in FOUR.rows[:3]:
        assert any(each.sentence in line for line in shown)
    assert any("NO EFFECT: channels_last" in line for line in shown)
    assert "a note" not in "".join(shown)
    assert "a note" in str(FOUR)


def test_a_page_gets_a_bar_a_plan_on_one_axis_and_folds_how_it_was_found():
    html = FOUR._repr_mimebundle_()["text/html"]
    assert html.count("border-left:1.5px dashed") == 3  # the line at 1×; what failed has no bar
    assert html.count("border-right:1.5px dotted") == 1  # an interval that goes on beyond the axis
    assert html.index("<details>") < html.index("a note")
    assert "1.8 to 2.0× faster · ✓ loss follows" in html[: html.index("<details>")]
    assert "1.93× [1.88, 1.99] faster" in html[html.index("<details>") :]
    assert "autocast+<wbr>&lt;b&gt;+<wbr>fused_optimizer" in html  # a long plan may go on in the next line


@pytest.mark.parametrize("by", ["--full", "accel.options.full"])
def test_asked_for_in_full_nothing_is_folded_or_left_out(monkeypatch, by):
    monkeypatch.setattr(accel.options, "full", by != "--full")
    whole = (in_full(FOUR) if by == "--full" else FOUR)._repr_mimebundle_()
    assert whole["text/plain"] == str(FOUR)
    assert "<details>" not in whole["text/html"]


def test_a_ladder_is_copied_as_a_table():
    lines = FOUR.to_markdown().splitlines()
    assert lines[0] == FOUR.summary.replace("<", "\\<").replace(">", "\\>")
    assert lines[2].startswith("| plan | verdict | ratio |")
    assert r"| autocast+\<b\>+fused_optimizer" in lines[4]
    assert FOUR.to_csv().splitlines()[2].startswith("compile_model,,slower,0.748")
