"""What a comparison by quality says: no more than the seeds and evaluations behind it can carry."""

from __future__ import annotations

import json
import re

import pytest

from accel.errors import AccelError
from accel.measuring.interval import OverSeeds
from accel.measuring.quality_target import QualityTarget
from accel.measuring.quality_verdict import _of_bounds
from accel.measuring.time_to_quality import TimeToQuality
from accel.measuring.training_curve import QualityPoint, QualityRow, TrainingCurve
from accel.measuring.trials_compared import trials_compared

TARGET = QualityTarget.parse("accuracy>=0.9")


def curve(seed, seconds, *, value=0.9, ending="reached", first_step_s=0.01, places=10):
    """A training of so many evaluations whose last one, after so many seconds, has that value."""
    rising = [
        QualityPoint(seconds * i / places, 100 * i // places, 0.1 + 0.7 * i / places) for i in range(places)
    ]
    points = (*rising, QualityPoint(seconds, 100, value))
    return TrainingCurve(seed, points, seconds, 100, 1600, first_step_s, ending)


def result(*rows, target=TARGET, train_s=None, **settings):
    """A result with these rows of (plan, curves)."""
    made = tuple(
        row if isinstance(row, QualityRow) else QualityRow(row[0], "exact", tuple(row[1])) for row in rows
    )
    return TimeToQuality(
        made, "accuracy", "accuracy: share of right answers on val_loader.", True, target, train_s, "a machine",
        epoch_samples=800, **settings,
    )  # fmt: skip


def over(*seconds, **settings):
    return [curve(seed, each, **settings) for seed, each in enumerate(seconds)]


def test_three_seeds_that_agree_are_a_verdict_with_an_interval():
    shown = result(("baseline", over(10.0, 11.0, 12.0)), ("quick", over(5.0, 5.6, 5.9)))
    answer = shown.answer("quick")
    assert answer.verdict == "sooner"
    assert answer.ratio.low < 2 < answer.ratio.high
    assert "2.00× sooner [" in answer.sentence
    assert "over 3 seeds" in answer.sentence
    reverse = result(("baseline", over(5.0, 5.6, 5.9)), ("slow", over(10.0, 11.0, 12.0))).answer("slow")
    assert reverse.verdict == "later"
    assert "later: takes 2.00× as long" in reverse.sentence


def test_two_trials_by_quality_are_compared_where_they_had_the_same_target():
    before = ("baseline", over(10.0, 11.0, 12.0))
    quick, slow = (result(before, ("plan", over(*times))) for times in ((2.0, 2.2, 2.3), (9.5, 10.0, 10.5)))
    assert trials_compared(quick, slow, ("B", "A")).startswith("Speed-ups of B against A: plan 4.")
    other = result(before, ("plan", over(9.5, 10.0, 10.5)), target=QualityTarget.parse("accuracy>=0.8"))
    assert "no plan in common" in trials_compared(quick, other, ("B", "A"))


def test_seeds_that_do_not_agree_decide_nothing():
    answer = result(("baseline", over(10.0, 5.0, 12.0)), ("other", over(5.0, 11.0, 11.0))).answer("other")
    assert answer.verdict == "undecided"
    assert answer.ratio.low < 0.5 < 2 < answer.ratio.high
    assert "more --seeds narrow it" in answer.sentence


def test_no_difference_is_an_interval_within_the_tolerance():
    base, same = over(10.0, 11.0, 12.0, places=40), over(10.1, 10.9, 12.0, places=40)
    answer = result(("baseline", base), ("same", same)).answer("same")
    assert answer.verdict == "no difference"
    assert 0.9 < answer.ratio.low < 1 < answer.ratio.high < 1.1


def test_crossings_on_two_sides_of_one_evaluation_are_nearly_equal():
    def rising(seed, crosses_s):
        """Evaluated once a second; the metric rises evenly through the target at that moment."""
        points = [QualityPoint(float(s), 100 * s, 0.9 * s / crosses_s) for s in range(5)]
        met = next(i for i, point in enumerate(points) if TARGET.is_met(point.value))
        return TrainingCurve(seed, tuple(points[: met + 1]), float(met), 100 * met, None, 0.001, "reached")

    base, other = ([rising(seed, at) for seed in range(3)] for at in (3.001, 2.999))
    assert base[0].reached(TARGET).seconds == 4.0
    assert other[0].reached(TARGET).seconds == 3.0
    answer = result(("baseline", base), ("other", other)).answer("other")
    assert answer.ratio.mean == pytest.approx(1.0, abs=0.01)
    assert answer.verdict == "undecided"  # three places are too few to call them equal


def test_few_evaluations_before_the_target_widen_the_interval():
    def answer(places):
        base, quick = (over(*(at, at + 0.1, at + 0.2), places=places) for at in (10.0, 8.5))
        return result(("baseline", base), ("quick", quick)).answer("quick")

    coarse, fine = answer(2), answer(20)
    assert (coarse.verdict, fine.verdict) == ("undecided", "sooner")
    assert coarse.ratio.low < fine.ratio.low < fine.ratio.high < coarse.ratio.high


def test_a_first_step_that_compiles_is_before_the_stretch_in_which_the_target_was_met():
    points = (QualityPoint(0.0, 0, 0.1), QualityPoint(8.0, 101, 0.98))
    met = TrainingCurve(0, points, 8.0, 101, None, 7.0, "reached").crossed(TARGET)
    assert met.seconds == pytest.approx(7.0 + 1.0 * 0.8 / 0.88)
    assert met.apart_s == 1.0


def test_without_an_earlier_evaluation_a_time_is_as_uncertain_as_it_is_long():
    met = TrainingCurve(0, (QualityPoint(4.0, 50, 0.95),), 4.0, 50, None, 0.1, "reached").crossed(TARGET)
    assert (met.seconds, met.steps, met.apart_s) == (4.0, 50.0, 4.0)


def test_one_seed_proves_little_and_two_have_no_interval_however_far_apart():
    one = result(("baseline", over(100.0)), ("quick", over(5.0))).answer("quick")
    assert (one.verdict, one.ratio.mean) == ("undecided", pytest.approx(20))
    assert "one seed, which proves little" in one.sentence
    two = result(("baseline", over(100.0, 100.0)), ("quick", over(5.0, 4.0))).answer("quick")
    assert two.verdict == "undecided"
    assert "20.00 and 25.00 in two seeds, too few for an interval" in two.sentence


def test_a_target_that_is_missed_is_a_result():
    missing = over(30.0, 30.0, 30.0, value=0.85, ending="given up")
    answer = result(("baseline", over(10.0, 11.0, 12.0)), ("broken", missing)).answer("broken")
    assert answer.verdict == "not reached"
    assert "not reached within 30 s of training (best 0.85)" in answer.sentence
    assert "given up" in answer.sentence


def test_a_target_that_only_some_seeds_reach_is_no_verdict():
    some = [curve(0, 5.0), curve(1, 5.0), curve(2, 30.0, value=0.8, ending="out of time")]
    shown = result(("baseline", over(10.0, 11.0, 12.0)), ("risky", some))
    answer = shown.answer("risky")
    assert (answer.verdict, answer.ratio) == ("undecided", None)
    assert "reached in 2 of 3 seeds, the baseline in 3" in answer.sentence
    assert "5 (2 of 3)" in str(shown)


def test_the_seconds_are_no_median_of_the_lucky_seeds():
    some = [curve(0, 5.0), *(curve(seed, 30.0, value=0.8, ending="out of time") for seed in (1, 2))]
    shown = result(("baseline", over(10.0, 11.0, 12.0)), ("risky", some))
    assert shown["risky"].seconds(TARGET) is None
    assert "– (1 of 3)" in str(shown)


def test_a_baseline_that_misses_the_target_in_one_seed_leaves_no_ratio():
    missing = over(30.0, value=0.85, ending="out of time")
    shown = result(("baseline", missing), ("quick", over(5.0)))
    answer = shown.answer("quick")
    assert (answer.verdict, answer.ratio) == ("undecided", None)
    assert "the baseline in 0: not reached within 30 s of training (best 0.85)" in answer.sentence
    assert "one seed, which proves little" in answer.sentence
    assert "not reached within 30 s" in shown.answer("baseline").sentence


def test_a_plan_that_reaches_what_the_baseline_never_does_is_sooner_by_at_least_so_much():
    missing = over(30.0, 31.0, 32.0, value=0.85, ending="out of time")
    shown = result(("baseline", missing), ("quick", over(5.0, 5.1, 5.2)))
    answer = shown.answer("quick")
    assert (answer.verdict, shown.best.plan) == ("sooner", "quick")
    assert re.search(r"at least (5|6)\.\d+× sooner over 3 seeds", answer.sentence)
    assert "best 0.85" in answer.sentence
    close = result(
        ("baseline", over(6.0, 4.0, 6.0, value=0.85, ending="out of time")), ("quick", over(5.0, 5.1, 5.2))
    )
    assert close.answer("quick").verdict == "undecided"


def test_a_plan_that_misses_in_one_seed_what_it_reaches_far_later_in_the_others_is_later():
    slow = [curve(0, 40.0), curve(1, 44.0), curve(2, 50.0, value=0.8, ending="out of time")]
    answer = result(("baseline", over(10.0, 11.0, 12.0)), ("slow", slow)).answer("slow")
    assert answer.verdict == "later"
    assert "takes at least" in answer.sentence


def test_a_target_that_nobody_reached_is_no_verdict_on_the_plan():
    nobody = over(30.0, 30.0, 30.0, value=0.85, ending="out of time")
    assert result(("baseline", nobody), ("other", nobody)).answer("other").verdict == "undecided"


@pytest.mark.parametrize("settings", [{}, {"target": None, "train_s": 30.0}])
def test_a_plan_that_diverges_where_the_baseline_does_not_has_that_verdict(settings):
    base = over(30.0, 30.0, 30.0, ending="budget spent" if settings else "reached")
    wild = [*base[:2], curve(2, 5.0, value=None, ending="diverged")]
    shown = result(("baseline", base), ("wild", wild), **settings)
    answer = shown.answer("wild")
    assert answer.verdict == "diverged"
    assert "diverged in 1 of 3 seeds" in answer.sentence
    assert "0.9 (2 of 3)" in str(shown)
    assert "▼ wild" in str(shown)


def test_where_the_baseline_diverges_too_nothing_is_decided():
    wild = over(5.0, 5.0, 5.0, value=None, ending="diverged")
    answer = result(("baseline", wild), ("wild", wild), target=None, train_s=30.0).answer("wild")
    assert answer.verdict == "undecided"
    assert "the baseline: the metric was no number any more" in answer.sentence


def test_with_equal_seconds_quality_is_compared_seed_by_seed():
    base = [
        curve(seed, 30.0, value=value, ending="budget spent") for seed, value in enumerate((0.90, 0.92, 0.88))
    ]
    good = [
        curve(seed, 30.0, value=value, ending="budget spent")
        for seed, value in enumerate((0.94, 0.961, 0.919))
    ]
    shown = result(("baseline", base), ("good", good), target=None, train_s=30.0)
    answer = shown.answer("good")
    assert (
        answer.verdict == "better"
    )  # each seed by 0.04, though the seeds differ by as much among themselves
    assert "better: accuracy +0.04 [" in answer.sentence
    assert "Accuracy after 30 s of training" in str(shown)
    swapped = result(("baseline", good), ("bad", base), target=None, train_s=30.0).answer("bad")
    assert swapped.verdict == "worse"


def test_trainings_that_ended_before_their_seconds_were_up_are_no_verdict():
    base = over(30.0, 30.0, 30.0, ending="budget spent")
    early = over(9.0, 9.0, 9.0, value=0.99, ending="cell over")
    answer = result(("baseline", base), ("early", early), target=None, train_s=30.0).answer("early")
    assert answer.verdict == "undecided"
    assert (
        "after 9 s (one run of the cell, which builds its model itself, was over), the baseline's 30 s"
        in answer.sentence
    )


@pytest.mark.parametrize(("apart", "verdict"), [(0.002, "no difference"), (0.04, "undecided")])
def test_with_equal_seconds_no_difference_is_an_interval_within_a_hundredth_of_the_metric(apart, verdict):
    base, other = (
        [curve(seed, 30.0, value=value, ending="budget spent") for seed, value in enumerate(values)]
        for values in ((0.90, 0.92, 0.88), (0.90 + apart, 0.92 - apart, 0.88))
    )
    shown = result(("baseline", base), ("other", other), target=None, train_s=30.0)
    assert shown.answer("other").verdict == verdict


def test_of_a_loss_the_lower_is_the_better():
    base = [curve(seed, 30.0, value=0.5 + seed / 10, ending="budget spent") for seed in range(3)]
    lower = [curve(seed, 30.0, value=0.4 + seed / 10, ending="budget spent") for seed in range(3)]
    rows = (QualityRow("baseline", "exact", tuple(base)), QualityRow("low", "exact", tuple(lower)))
    shown = TimeToQuality(rows, "loss", "loss: mean.", False, None, 30.0, "a machine")
    assert shown.answer("low").verdict == "better"


def test_the_table_has_seconds_steps_epochs_throughput_and_quality_side_by_side():
    quick = QualityRow(
        "quick",
        "changes training",
        tuple(over(5.0, 5.6, 5.9, first_step_s=2.0)),
        (("quick", False, "nothing was seen"),),
    )
    text = str(result(("baseline", over(10.0, 11.0, 12.0)), quick))
    line = next(line for line in text.splitlines() if "▲ quick" in line)
    assert line.split()[:7] == ["▲", "quick", "5.6", "100", "2.0", "440", "0.9"]
    for said in (
        "Seconds of training until accuracy>=0.9", "its first step took 2 s",
        "seed 1: 5.6 s, 100 steps (accuracy 0.9 when evaluated, at 5.6 s)",
        "DID NOT TAKE EFFECT: quick — nothing was seen", "up to 1.2 s of training apart", "a machine",
        "changes training",
    ):  # fmt: skip
        assert said in text


def test_a_row_that_failed_or_cannot_work_says_why():
    failed = QualityRow("broken", "exact", state="failed", error="it raised. Look at it.")
    refused = QualityRow("never", "exact", state="not applicable", error="No GPU. Use one.")
    shown = result(("baseline", over(10.0)), failed, refused)
    assert "✗ broken" in str(shown)
    assert shown.answer("broken").sentence == "failed: it raised. Look at it."
    assert shown.answer("never").sentence == "not applicable: No GPU. Use one."


def test_every_view_is_made_of_what_is_known_and_escapes_it():
    shown = result(("baseline", over(10.0, 11.0)), ("<b>quick", over(5.0, 6.0)), notes=("a <i>note",))
    page = shown._repr_mimebundle_()["text/html"]
    assert "<b>" not in page
    assert "<i>" not in page
    assert json.loads(json.dumps(shown.to_dict()))["rows"][1]["curves"][0]["points"][-1]["value"] == 0.9
    frame = shown.to_dataframe()
    assert list(frame["seconds"]) == [10.0, 11.0, 5.0, 6.0]
    assert frame["is_reached"].all()
    figure = shown.figure()
    assert len(figure.data) == 4
    assert "<b>" not in str(figure.to_dict()["data"][2]["name"])


def test_a_figure_of_nothing_says_so():
    with pytest.raises(AccelError, match="nothing was evaluated"):
        result(QualityRow("baseline", "exact")).figure()


@pytest.mark.parametrize(("values", "half"), [([1.0, 2.0, 3.0], 2.484), ([1.0, 2.0, 3.0, 4.0], 2.054)])
def test_the_interval_is_students(values, half):
    over_seeds = OverSeeds.of(values)
    assert over_seeds.high - over_seeds.mean == pytest.approx(half, rel=0.01)
    assert over_seeds.mean - over_seeds.low == pytest.approx(half, rel=0.01)


def test_a_bound_that_is_shown_as_1_claims_nothing():
    def answer(low, high, is_sooner):
        ratio = OverSeeds(mean=(low * high) ** 0.5, low=low, high=high, seeds=3)
        return _of_bounds(ratio, is_sooner=is_sooner, often="the baseline missed it in one seed")

    assert answer(1.004, 3.0, True).verdict == "undecided"
    assert "1.00×" not in answer(1.004, 3.0, True).sentence
    assert answer(1.01, 3.0, True).verdict == "sooner"
    assert answer(0.3, 0.997, False).verdict == "undecided"
    assert answer(0.3, 0.9, False).verdict == "later"
