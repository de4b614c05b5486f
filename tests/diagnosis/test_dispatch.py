"""What counts as the price of a call follows the core: the same step on a slower or a busy one reads the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accel.diagnosis import Evidence
from accel.diagnosis.batch_too_small import batch_too_small
from accel.diagnosis.dispatch import call_scale, dispatch_share, short_share
from accel.diagnosis.launch_bound import launch_bound
from tests.diagnosis import test_batch_too_small, test_launch_bound
from tests.diagnosis.making import by_hand, row

pytestmark = pytest.mark.timeout(900)  # on a busy machine a cell is profiled again and again


def slower(evidence, times):
    """The same run on a core that takes that many times as long for everything."""
    profile = evidence.profile
    timing = replace(
        profile.timing,
        times_ms=tuple(times * ms for ms in profile.timing.times_ms),
        phases=tuple(replace(phase, ms=times * phase.ms) for phase in profile.timing.phases),
    )
    rows = tuple(replace(each, self_ms=times * each.self_ms) for each in profile.rows)
    return Evidence(replace(profile, timing=timing, rows=rows), evidence.workload, evidence.machine)


@pytest.mark.parametrize("times", [0.25, 3.0, 12.0])
def test_shares_are_the_same_on_a_slower_and_on_a_faster_core(times):
    for evidence in (test_launch_bound.faulty(), test_launch_bound.sound()):
        assert call_scale(slower(evidence, times)) == pytest.approx(times * call_scale(evidence))
        assert dispatch_share(slower(evidence, times)) == pytest.approx(dispatch_share(evidence))
        assert short_share(slower(evidence, times), "forward", "backward") == pytest.approx(
            short_share(evidence, "forward", "backward")
        )


@pytest.mark.parametrize("times", [0.25, 12.0])
def test_faults_are_found_on_a_slower_core_and_not_invented_on_a_faster_one(times):
    assert launch_bound(slower(test_launch_bound.faulty(), times)) is not None
    assert launch_bound(slower(test_launch_bound.sound(), times)) is None
    assert batch_too_small(slower(test_batch_too_small.faulty(), times)) is not None
    assert batch_too_small(slower(test_batch_too_small.sound(), times)) is None


def test_a_call_that_was_interrupted_does_not_make_the_core_slow():
    calls = tuple(row("aten::t", "forward", 0.00002, calls=1.0, module=str(i)) for i in range(9))
    interrupted = row("aten::view", "forward", 0.5, calls=2.0)
    assert call_scale(by_hand({}, (*calls, interrupted), step_ms=10.0)) == pytest.approx(1.0)


def test_without_calls_that_compute_nothing_the_core_is_taken_to_be_the_usual_one():
    assert call_scale(by_hand({}, (row("aten::addmm", "forward", 0.9, calls=100.0),))) == 1.0
    assert call_scale(by_hand({}, (row("aten::t", "forward", 0.1, calls=2.0),))) == 1.0
