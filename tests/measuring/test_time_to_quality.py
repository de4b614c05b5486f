"""What a comparison by quality says: no more than the seeds and evaluations behind it can carry."""

from __future__ import annotations

import json

import pytest

from accel.errors import AccelError
from accel.measuring.quality_row import QualityRow
from accel.measuring.quality_target import QualityTarget
from accel.measuring.seed_statistics import OverSeeds
from accel.measuring.time_to_quality import TimeToQuality
from accel.measuring.training_curve import QualityPoint, TrainingCurve

TARGET = QualityTarget.parse("accuracy>=0.9")


def curve(seed, seconds, *, value=0.95, ending="reached", first_step_s=0.01):
    """A training of ten evaluations whose last one, after so many seconds, has that value."""
    rising = [QualityPoint(seconds * i / 10, 10 * i, 0.1 + 0.07 * i) for i in range(10)]
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


def test_seeds_that_do_not_agree_are_no_difference():
    answer = result(("baseline", over(10.0, 5.0, 12.0)), ("other", over(5.0, 11.0, 11.0))).answer("other")
    assert answer.verdict == "no difference"
    assert "no difference found" in answer.sentence


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
    answer = result(("baseline", over(10.0, 11.0, 12.0)), ("risky", some)).answer("risky")
    assert answer.verdict == "undecided"
    assert "reached in only 2 of 3 seeds" in answer.sentence


def test_a_baseline_that_misses_the_target_leaves_no_ratio():
    missing = over(30.0, value=0.85, ending="out of time")
    shown = result(("baseline", missing), ("quick", over(5.0)))
    assert shown.answer("quick").ratio is None
    assert "reached after 5 s, the baseline not reached within 30 s" in shown.answer("quick").sentence
    assert "not reached within 30 s" in shown.answer("baseline").sentence


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
    assert "after 9 s, the baseline's 30 s: one run of the cell" in answer.sentence


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
    assert line.split()[:7] == ["▲", "quick", "5.6", "100", "2.0", "440", "0.95"]
    for said in (
        "Seconds of training until accuracy>=0.9", "its first step took 2 s", "seed 1: 5.6 s, 100 steps, accuracy 0.95",
        "DID NOT TAKE EFFECT: quick — nothing was seen", "up to 1.2 s of training lie between two", "a machine",
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
    assert json.loads(json.dumps(shown.to_dict()))["rows"][1]["curves"][0]["points"][-1]["value"] == 0.95
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
