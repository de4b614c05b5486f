"""What other programs took, and what that costs the program that is measured."""

from __future__ import annotations

import pytest

from accel.measuring.disturbance import Disturbance, worst


@pytest.mark.parametrize(
    ("share", "cpus", "wanted", "cost"),
    [(0.0, 2, 2, 1.0), (0.6, 2, 2, 2.5), (0.5, 2, 1, 1.0), (0.5, 64, 1, 1.0), (0.5, 64, 64, 2.0)],
)
def test_it_costs_what_is_missing_of_the_cores_that_are_wanted(share, cpus, wanted, cost):
    disturbed = Disturbance(share, cpus, wanted)
    assert disturbed.cost == pytest.approx(cost)
    assert bool(disturbed) == (cost > 1.0)


def test_the_worst_is_told_and_a_quiet_machine_is_not():
    quiet, busy = Disturbance(0.01, 2, 2), Disturbance(0.6, 2, 2)
    assert worst([quiet, busy]) is busy
    assert worst([quiet]) is None
    assert str(busy).startswith(
        "Other programs used 60 % of the 2 CPUs in that time: times are up to 2.5 times"
    )
