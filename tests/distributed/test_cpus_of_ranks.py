"""The CPUs of ranks, on machines that this one is not: the same for a run and for a trial of it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from accel.accelerations.ddp import Ddp
from accel.distributed.ranks import cpus_of_ranks as here
from accel.distributed.ranks.cpus_of_ranks import cpus_of_ranks
from accel.distributed.ranks.rank_pool import RankPool
from accel.distributed.trials.trial_answers import joined
from accel.errors import AccelError
from accel.machine.affinity import allocation
from accel.machine.affinity.cpu_map import CpuMap, LogicalCpu
from accel.workers.messages import EffectRead

EIGHT = CpuMap(tuple(LogicalCpu(n, n // 2, siblings=(n // 2 * 2, n // 2 * 2 + 1)) for n in range(8)))


@pytest.fixture
def four_cores_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four cores with two threads each, all allowed; no quota."""
    monkeypatch.setattr(allocation, "read_cpu_map", lambda: EIGHT)
    for module in (here, allocation):
        monkeypatch.setattr(module, "starting_mask", lambda: set(range(8)))
        monkeypatch.setattr(module, "cpu_quota", lambda: None)


@pytest.mark.usefixtures("four_cores_of_two")
def test_second_threads_of_cores_are_given_out_only_where_no_number_is_asked_for() -> None:
    shared_out = cpus_of_ranks(2, None)
    assert shared_out is not None
    assert sorted(cpu for each in shared_out.ranks for cpu in each.cpus) == list(range(8))
    assert not shared_out.notes  # which are for who chose a number
    asked = cpus_of_ranks(2, 2)
    assert asked is not None
    assert [each.cpus for each in asked.ranks] == [(0, 2), (4, 6)]
    assert not asked.notes
    with pytest.raises(AccelError, match="there are 4"):
        cpus_of_ranks(2, 4)
    with pytest.raises(AccelError, match="there are 4"):
        RankPool(2, threads=4)
    assert cpus_of_ranks(9, None) is None


@pytest.mark.usefixtures("four_cores_of_two")
def test_a_quota_lets_no_more_threads_start_than_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (here, allocation):
        monkeypatch.setattr(module, "cpu_quota", lambda: 2.0)
    given = cpus_of_ranks(2, None)
    assert given is not None
    assert [each.cpus for each in given.ranks] == [(0,), (2,)]
    assert not given.notes
    asked = cpus_of_ranks(2, 2)
    assert asked is not None
    assert "quota lets 2 threads compute" in asked.notes[0]


def test_what_is_to_be_known_of_the_cpus_is_told_with_the_proof_of_a_trial() -> None:
    answers = [EffectRead([(Ddp.name, True, "equal")])] * 2
    ((_, _, evidence),) = joined(answers, [(0,), (1,)], ["Some threads share a core."]).proofs
    assert evidence == "equal; rank 0 on CPU 0, rank 1 on CPU 1. Some threads share a core."


TWO = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="two CPUs are needed"
)


@TWO
def test_variables_that_bind_threads_bind_no_rank_and_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"GOMP_CPU_AFFINITY": "0-15", "OMP_NUM_THREADS": "16", "OMP_PROC_BIND": "close", "OMP_PLACES": "cores",
            "KMP_AFFINITY": "granularity=fine,compact,1,0"}  # fmt: skip
    for name, value in told.items():
        monkeypatch.setenv(name, value)

    def seen() -> tuple[tuple[int, ...], int]:
        torch.randn(300, 300) @ torch.randn(300, 300)  # OpenMP begins
        return tuple(sorted(os.sched_getaffinity(0))), torch.get_num_threads()

    pool = RankPool(2, threads=1)
    try:
        assert pool.allocation is not None
        assert pool.run(seen) == [(each.cpus, 1) for each in pool.allocation.ranks]
        (note,) = [note for note in pool.allocation.notes if "GOMP_CPU_AFFINITY=0-15" in note]
        assert "no part in the ranks" in note
    finally:
        pool.close()


_BOUND = """
import os, accel
from accel.processes.starting_mask import starting_mask
began = sorted(os.sched_getaffinity(0))
profile = accel.profile('''
import torch
model = torch.nn.Linear(300, 300)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(8):
    optimizer.zero_grad(); model(torch.randn(300, 300)).sum().backward(); optimizer.step()
''')
assert set(starting_mask()) <= set(began), (starting_mask(), began)
print("\\n".join(profile.notes))
"""


@TWO
def test_a_mask_that_names_cpus_which_are_not_there_is_cut_and_a_profile_under_it_says_so() -> None:
    cpus = sorted(os.sched_getaffinity(0))
    listed = f"{cpus[0]} {cpus[1]} 4000-4015"
    done = subprocess.run(
        [sys.executable, "-c", _BOUND], capture_output=True, text=True, timeout=300,
        env={**os.environ, "GOMP_CPU_AFFINITY": listed, "OMP_NUM_THREADS": "16"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    if len(cpus) == 2:
        assert (
            f"GOMP_CPU_AFFINITY={listed} keeps the main thread on CPU {cpus[0]} of the 2 that there are"
            in done.stdout
        )
