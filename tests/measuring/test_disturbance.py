"""What other programs took, and what that costs the program that is measured."""

from __future__ import annotations

import pytest

from accel.measuring.disturbance import Disturbance, worst


@pytest.mark.parametrize(
    ("share", "cpus", "wanted", "cost", "is_reported"),
    [
        (0.0, 2, 2, 1.0, False),
        (0.6, 2, 2, 2.5, True),
        (0.5, 2, 1, 1.0, True),  # somebody has a core, also where one was left
        (0.1, 2, 1, 1.0, False),
        (0.5, 64, 64, 2.0, True),
    ],
)
def test_it_costs_what_is_missing_of_the_cores_that_are_wanted(share, cpus, wanted, cost, is_reported):
    disturbed = Disturbance(share, cpus, wanted)
    assert disturbed.cost == pytest.approx(cost)
    assert bool(disturbed) == is_reported


def test_the_worst_is_reported_and_a_quiet_machine_is_not():
    quiet, busy = Disturbance(0.01, 2, 2), Disturbance(0.6, 2, 2)
    assert worst([quiet, busy]) == busy
    assert worst([quiet]) is None
    assert str(busy) == (
        "This machine was busy: other programs used 60 % of the 2 CPUs. "
        "Times are up to 2.5 times as long as on a quiet machine."
    )


def test_what_it_costs_in_certainty_is_reported():
    busy = worst([Disturbance(0.5, 2, 1)], widened=1.8)
    assert str(busy).endswith("Intervals are 1.8 times as wide as on a quiet machine.")
    narrow = worst([Disturbance(0.5, 2, 1)], widened=1.0)
    assert str(narrow).endswith(
        "This hardly changed the times. Intervals are as narrow as on a quiet machine."
    )
    assert "ntervals" not in str(Disturbance(0.5, 2, 1))  # they were not measured


def test_a_quota_that_stops_the_processes_is_reported():
    stopped = Disturbance(0.0, 2, 2, stopped=0.34, quota_cores=1.5)
    assert str(worst([stopped])) == (
        "The CPU quota of 1.5 cores stopped everything in 34 % of its periods: these times are only valid under this quota."
    )
    assert worst([Disturbance(0.0, 2, 2, stopped=0.01, quota_cores=1.5)]) is None
