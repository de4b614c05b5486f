"""Steps that take many page faults under glibc's defaults are found; small tensors, which stay in the process, take none."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from accel.diagnosis import Evidence
from accel.diagnosis.allocator_page_faults import allocator_page_faults, page_fault_us
from accel.profiling.whole_run import WholeRun
from tests.diagnosis.making import TRAIN, by_hand, real

GLIBC, OTHER = "/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/libtcmalloc_minimal.so.4"


def faulting(count, allocator=GLIBC, step_ms=10.0, live=()):
    evidence = by_hand({"forward": 1.0}, step_ms=step_ms, whole_run=WholeRun(page_faults_per_step=count))
    machine = replace(evidence.machine, allocator=allocator)
    return Evidence(evidence.profile, evidence.workload, machine, live)


@cache
def faulty():
    return faulting(5000.0)


@cache
def sound():
    return real()


needs_faults = pytest.mark.skipif(page_fault_us() is None, reason="this system does not tell page faults")


@needs_faults
def test_a_cell_that_makes_and_frees_large_tensors_is_found():
    from accel.accelerations.steady_allocator import allocator_name, is_steady, set_from_outside

    if allocator_name() != "glibc" or is_steady() or set_from_outside():
        pytest.skip("glibc's default thresholds are not in force here")
    # 64 MiB: above the highest threshold that glibc's own adjusting can reach, so earlier tests make no difference.
    finding = allocator_page_faults(real(TRAIN + "    torch.ones(16 << 20).sum()\n", timed=False))
    assert finding.details["page_faults_per_step"] > 256
    assert finding.suggests == ("steady_allocator",)
    assert 1 < finding.prediction.low < finding.prediction.high


@needs_faults
def test_the_share_is_the_number_of_faults_times_what_one_costs():
    finding = allocator_page_faults(faulting(1000.0, step_ms=20.0))
    cost = 1000 * finding.details["page_fault_us"] / 20_000  # measured here: a busy machine makes it dear
    assert finding.share == pytest.approx(min(cost, 0.9))


@needs_faults
@pytest.mark.parametrize("share", [0.3, 0.6, 0.72, 0.9])
def test_a_step_is_never_predicted_to_vanish(share):
    step_ms = 10_000 * page_fault_us() / 1e3 / share
    assert allocator_page_faults(faulting(10_000.0, step_ms=step_ms)).prediction.high < 15


def test_few_faults_are_not_worth_a_word():
    assert allocator_page_faults(faulting(200.0)) is None


def test_another_allocator_has_no_such_thresholds():
    assert allocator_page_faults(faulting(5000.0, OTHER)) is None


def test_a_kept_steady_allocator_is_not_suggested_again():
    assert allocator_page_faults(faulting(5000.0, live=("steady_allocator",))) is None


def test_where_the_system_does_not_tell_nothing_is_said():
    assert allocator_page_faults(faulting(None)) is None


def test_the_cost_of_a_fault_is_a_time():
    assert page_fault_us() is None or 0 < page_fault_us() < 1000
