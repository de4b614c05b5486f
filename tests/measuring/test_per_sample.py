"""When are two plans compared by the time of a sample, and when by that of a step."""

from __future__ import annotations

from dataclasses import dataclass, field

from accel.measuring.comparison import Comparison, Interval, Quality
from accel.measuring.ladder import Ladder
from accel.measuring.per_sample import compared_times, differ
from accel.views.ladder import explanations


@dataclass
class Rounds:
    step_ns: list[float]
    step_samples: list[float]
    every_step_samples: list[int] = field(default_factory=list)

    def __post_init__(self):
        self.every_step_samples = [round(count) for count in self.step_samples]


def test_steps_of_equal_size_are_compared_as_they_are_last_smaller_batches_included():
    base, own = Rounds([20.0, 21.0, 3.0], [64, 64, 5]), Rounds([10.0, 11.0, 2.0], [64, 64, 5])
    assert compared_times(base, own) == (base.step_ns, own.step_ns)


def test_steps_of_another_size_are_compared_per_sample():
    base, own = Rounds([20.0, 20.0], [64, 64]), Rounds([30.0, 15.0], [128, 64.0])
    own.every_step_samples = [128, 128, 64]
    assert compared_times(base, own) == ([20 / 64, 20 / 64], [30 / 128, 15 / 64])


def test_nothing_is_divided_where_samples_could_not_be_counted():
    base, own = Rounds([20.0], [0]), Rounds([30.0], [128])
    assert compared_times(base, own) == ([20.0], [30.0])
    assert not differ([], [64])


def test_batches_of_slightly_varying_size_are_of_one_size():
    assert not differ([100, 96, 103], [101, 99, 97])
    assert differ([64, 64, 64], [32, 32, 8])


def row(**fields):
    shown = Interval(1.8, 1.7, 1.9, 3, 60)
    return Comparison(
        "batch_size", "faster", shown, None, Quality("other batches"), "changes training", **fields
    )


def test_a_row_says_that_it_is_per_sample_and_how_large_the_steps_are():
    made = row(samples_per_step=(64, 128), baseline_ms=20.0, candidate_ms=22.2)
    assert made.sentence == "1.80× [1.70, 1.90] faster per sample"
    text = "\n".join(explanations(made))
    assert "a step of 64 samples took 20 ms, one of 128 22.2 ms" in text
    assert "--until" in text


def test_a_plan_whose_losses_cannot_be_compared_is_never_the_one_to_keep_by_default():
    assert Ladder((row(samples_per_step=(64, 128)),), 20.0, "", "").best is None
