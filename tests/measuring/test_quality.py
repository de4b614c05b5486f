"""Whether a loss still follows the baseline's, against the measured noise floor."""

from __future__ import annotations

from accel.measuring.comparison import compare_losses

BASE = [2.3, 2.1, 1.9, 1.7]


def test_bit_equal_losses_are_the_same():
    assert compare_losses(BASE, BASE).following == "same"


def test_a_change_within_ten_floors_follows():
    moved = [loss + 1e-4 for loss in BASE]
    floor = [loss + 5e-5 for loss in BASE]
    assert compare_losses(BASE, moved, floor).following == "follows"


def test_the_same_change_drifts_when_the_floor_is_lower():
    moved = [loss + 1e-2 for loss in BASE]
    floor = [loss + 1e-6 for loss in BASE]
    assert compare_losses(BASE, moved, floor).following == "drifts"


def test_a_low_precision_format_may_move_the_loss_a_little():
    moved = [loss + 1e-2 for loss in BASE]
    assert compare_losses(BASE, moved, effect="close").following == "follows"


def test_a_loss_that_is_no_number_any_more_drifts():
    assert compare_losses(BASE, [2.3, None, None, None]).following == "drifts"


def test_a_loss_that_is_no_number_is_lost_by_more_than_any_share():
    assert compare_losses(BASE, [2.3, None, None, None], BASE[:1]).lost == float("inf")


def test_without_a_floor_a_small_difference_is_no_drift():
    """A GPU's kernels add up in an order of their own, so that the same program gives other losses too."""
    quality = compare_losses(BASE, [loss * 1.0001 for loss in BASE])
    assert quality.following == "follows"
    assert "noise floor not measured" in str(quality)
    assert compare_losses(BASE, [loss * 1.05 for loss in BASE]).following == "drifts"


def test_where_the_floor_is_of_fewer_steps_these_are_compared():
    """Chaotic losses part more and more: a floor of two steps says nothing of the fourth."""
    moved = [2.3, 2.101, 2.5, 3.0]
    quality = compare_losses(BASE, moved, [2.3, 2.1005])
    assert (quality.following, quality.steps) == ("follows", 2)


def test_losses_that_are_worse_on_average_are_measured_against_the_noise_of_that_average():
    floor = [2.4, 2.0, 2.0, 1.6]  # far off in each step, and not on average
    quality = compare_losses(BASE, [loss * 1.02 for loss in BASE], floor)
    assert quality.lost > 0.019
    assert quality.lost_by_noise < 0.001


def test_without_a_scalar_loss_quality_is_unknown():
    assert compare_losses([None, None], [None, None]).following == "unknown"


def test_only_common_steps_are_compared():
    quality = compare_losses(BASE, BASE[:2])
    assert (quality.following, quality.steps) == ("same", 2)
