"""Workers that inherited one CPU are found, not those with a mask of their own, nor a process that began with one."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import pytest

from accel.diagnosis import Evidence
from accel.diagnosis.narrowed_workers import narrowed_workers
from accel.diagnosis.predicting import Part, amdahl
from accel.profiling.step_timing import PhaseShare
from tests.diagnosis.making import real

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="there are no affinity masks here"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]

DATA = """
import accel
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(160, 16), torch.randint(0, 4, (160,))), batch_size=8, num_workers=2)
"""
EPOCH = """
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""


@contextmanager
def narrowed():
    """What OMP_PROC_BIND does to a process that begins with it: the main thread has one CPU, another thread all."""
    mask, done = os.sched_getaffinity(0), threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    os.environ["OMP_PROC_BIND"] = "close"
    os.sched_setaffinity(0, {min(mask)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, mask)
        del os.environ["OMP_PROC_BIND"]
        done.set()
        other.join()


@cache
def profiled(data: str, epoch: str, *, is_narrowed: bool) -> Evidence:
    if not is_narrowed:
        return real(epoch, data, timed=False)
    with narrowed():
        return real(epoch, data, timed=False)


def with_two_cpus(evidence: Evidence) -> Evidence:
    """The same where the machine that tests run on has one CPU only."""
    run = evidence.profile.whole_run
    cpus = max(2, run.conditions.starting_cpus)
    told = replace(run, conditions=replace(run.conditions, starting_cpus=cpus))
    return replace(evidence, profile=replace(evidence.profile, whole_run=told))


def faulty() -> Evidence:
    return with_two_cpus(profiled(DATA, EPOCH, is_narrowed=True))


def sound() -> Evidence:
    return profiled(DATA, EPOCH, is_narrowed=False)


def test_it_says_how_many_share_the_cpu_and_what_bound_them():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two CPUs are needed")
    evidence = profiled(DATA, EPOCH, is_narrowed=True)
    with narrowed():
        finding = narrowed_workers(evidence)
    assert finding.title == f"Loader workers share one CPU of {len(os.sched_getaffinity(0))} with training"
    assert "OMP_PROC_BIND=close" in finding.evidence
    assert "accel.loader_affinity()" in finding.remedy


def test_workers_that_run_already_must_be_started_anew():
    data = DATA.replace("num_workers=2", "num_workers=2, persistent_workers=True")
    finding = narrowed_workers(with_two_cpus(profiled(data, EPOCH, is_narrowed=True)))
    assert "start its workers inside" in finding.remedy
    assert "import accel" in finding.remedy
    assert "start its workers inside" not in narrowed_workers(faulty()).remedy


def test_in_a_cell_that_gives_them_a_mask_nothing_is_amiss():
    epoch = "with accel.loader_affinity():\n    " + EPOCH.strip().replace("\n", "\n    ")
    assert narrowed_workers(with_two_cpus(profiled(DATA, epoch, is_narrowed=True))) is None


def test_a_loader_without_workers_shares_nothing():
    assert (
        narrowed_workers(
            with_two_cpus(profiled(DATA.replace("num_workers=2", "num_workers=0"), EPOCH, is_narrowed=True))
        )
        is None
    )


def test_a_process_that_began_with_one_cpu_was_not_narrowed():
    evidence = faulty()
    run = evidence.profile.whole_run
    alone = replace(run, conditions=replace(run.conditions, starting_cpus=1))
    assert narrowed_workers(replace(evidence, profile=replace(evidence.profile, whole_run=alone))) is None


@pytest.mark.parametrize("waiting", [0.1, 0.2])
def test_the_rest_of_the_step_gets_faster_too_where_it_has_a_cpu_to_itself(waiting):
    evidence = faulty()
    shares = {"data": waiting, "forward": 1 - waiting}
    phases = tuple(PhaseShare(name, share, share) for name, share in shares.items())
    timing = replace(evidence.profile.timing, phases=phases)
    finding = narrowed_workers(replace(evidence, profile=replace(evidence.profile, timing=timing)))
    assert finding.share == waiting
    alone = amdahl("", Part(waiting, 1.0, 3.0, 1000.0))  # waiting gets faster, the rest does not
    assert finding.prediction.low == alone.low == 1.0
    assert finding.prediction.ratio > alone.ratio
    assert finding.prediction.high > alone.high
