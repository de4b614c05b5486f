"""What other processes take of the CPUs and GPUs is seen, and one's own work is not taken for theirs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from accel.machine.peaks import other_work
from accel.machine.peaks.other_work import (
    FamilyTime,
    OtherWork,
    ProcessTime,
    gpus_at_work,
    threads_of_others,
    undisturbed,
)

HZ = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def write_stat(root, *, busy_s, idle_s, cpus=2):
    """/proc/stat of a machine whose CPUs each worked, and waited, so long."""
    line = f"{int(busy_s * HZ)} 0 0 {int(idle_s * HZ)} 0 0 0 0 777 777"
    (root / "proc").mkdir(exist_ok=True)
    lines = [f"cpu  {line}", *(f"cpu{number} {line}" for number in range(cpus)), "intr 5 5"]
    (root / "proc/stat").write_text("\n".join(lines))


def test_the_share_of_others_is_what_the_cpus_worked_less_our_own_time(tmp_path):
    own = iter([1.0, 5.0])
    write_stat(tmp_path, busy_s=100, idle_s=100)
    with OtherWork(2, [0, 1], root=tmp_path, own_s=lambda: next(own)) as others:
        write_stat(tmp_path, busy_s=106, idle_s=104)  # 2 CPUs × 10 s, 12 s worked, 4 of them ours
    assert others.share == pytest.approx(8 / 20)
    assert others.disturbed


@pytest.mark.parametrize(("threads", "disturbed"), [(1, False), (2, True), (64, True)])
def test_others_disturb_where_no_core_is_left_for_each_of_our_threads(tmp_path, threads, disturbed):
    write_stat(tmp_path, busy_s=0, idle_s=0)
    with OtherWork(threads, [0, 1], root=tmp_path, own_s=lambda: 0.0) as others:
        write_stat(tmp_path, busy_s=4, idle_s=6)  # others have 0.8 of the two cores: 1.2 are left
    assert others.disturbed is disturbed


def test_a_disturbed_rate_is_measured_again_and_the_best_is_kept(monkeypatch):
    shares, rates = iter([0.9, 0.0]), iter([5.0, 3.0])

    class Watched(OtherWork):
        def __exit__(self, *_):
            self.share = next(shares)

    monkeypatch.setattr(other_work, "OtherWork", Watched)
    monkeypatch.setattr(other_work.time, "perf_counter", lambda: next(clock))
    clock = iter([0.0, 0.01])
    assert undisturbed(lambda _: next(rates), 8) == (5.0, False)
    shares, rates, clock = iter([0.9, 0.9, 0.9]), iter([5.0, 7.0, 6.0]), iter([0.0, 0.1, 0.2, 99.0])
    assert undisturbed(lambda _: next(rates), 8) == (7.0, True)


def test_our_own_work_disturbs_nothing(tmp_path):
    own = iter([0.0, 16.0])
    write_stat(tmp_path, busy_s=0, idle_s=0)
    with OtherWork(2, [0, 1], root=tmp_path, own_s=lambda: next(own)) as others:
        write_stat(tmp_path, busy_s=8, idle_s=2)
    assert others.share == 0
    assert not others.disturbed


def test_only_the_cpus_that_are_measured_on_count(tmp_path):
    write_stat(tmp_path, busy_s=0, idle_s=0, cpus=1)
    with OtherWork(1, [5], root=tmp_path, own_s=lambda: 0.0) as others:
        write_stat(tmp_path, busy_s=8, idle_s=2, cpus=1)
    assert others.share == 0


def test_a_system_that_does_not_tell_disturbs_nothing(tmp_path):
    with OtherWork(root=tmp_path) as others:
        pass
    assert not others.disturbed
    assert others.taken is None


def test_periods_in_which_a_quota_stopped_everything_are_counted(tmp_path):
    folder = tmp_path / "sys/fs/cgroup"
    folder.mkdir(parents=True)
    (folder / "cpu.max").write_text("150000 100000")
    (folder / "cpu.stat").write_text("usage_usec 1\nnr_periods 10\nnr_throttled 2\n")
    with OtherWork(root=tmp_path) as others:
        (folder / "cpu.stat").write_text("usage_usec 9\nnr_periods 30\nnr_throttled 7\n")
    assert (others.quota_cores, others.stopped) == (1.5, 0.25)


class FakeNvml:
    class NVMLError(Exception):
        pass

    def __init__(self, percents):
        self.percents = percents

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid not in self.percents:
            raise self.NVMLError("not found")
        return uuid

    def nvmlDeviceGetUtilizationRates(self, handle):
        return type("Rates", (), {"gpu": self.percents[handle]})


def test_a_gpu_that_computes_for_somebody_is_seen_by_its_own_name():
    nvml = FakeNvml({"GPU-a": 3, "GPU-b": 87})
    assert gpus_at_work(nvml, ["a", "GPU-b", "MIG-c"]) == {1: 87}
    assert gpus_at_work(nvml, ["b", "a"]) == {0: 87}
    assert gpus_at_work(None, ["a"]) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_work_of_ones_own_children_is_not_that_of_others():
    """A child that spins counts as ours while it runs, and once more only for what it added when it was waited for."""
    spins = "import time\nuntil = time.process_time() + 0.3\nwhile time.process_time() < until: pass\nprint(flush=True)\ninput()"
    first = FamilyTime.now()
    with subprocess.Popen(
        [sys.executable, "-c", spins], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        running = first.used_until(FamilyTime.now())
        between = FamilyTime.now()
    assert child.returncode != 0  # input() met the end
    assert running >= 0.28  # Linux counts user and system time in whole ticks of 10 ms
    assert between.used_until(FamilyTime.now()) < 0.3


def family(**processes):
    return FamilyTime({(int(name[1:]), 7): ProcessTime(*times) for name, times in processes.items()})


def test_a_process_that_ended_unwaited_for_leaves_our_time_unknown():
    before = family(p1=(0, 1.0), p2=(1, 5.0), p3=(2, 3.5))
    assert before.used_until(family(p1=(0, 1.5), p2=(1, 6.0, 3.7))) == pytest.approx(1.7)  # its parent waited
    assert before.used_until(family(p1=(0, 1.5), p2=(1, 6.0))) is None  # its parent did not
    assert before.used_until(family(p1=(0, 1.5, 5.5))) is None  # and here it ended with its parent
    given_away = FamilyTime({**before.processes, (3, 9): ProcessTime(2, 0.1)})
    del given_away.processes[3, 7]
    assert before.used_until(given_away) is None


def test_others_never_take_more_than_there_is(tmp_path):
    own = iter([5.0, 1.0])
    write_stat(tmp_path, busy_s=0, idle_s=0)
    with OtherWork(1, [0, 1], root=tmp_path, own_s=lambda: next(own)) as others:
        write_stat(tmp_path, busy_s=9, idle_s=1)
    assert others.share == 1.0


@pytest.mark.parametrize(
    ("busy_s", "runnable", "cores", "threads"),
    [
        (10, "4/900", os.cpu_count(), max(3.0, float(os.cpu_count()))),  # all CPUs are in use: the count says more
        (5, "4/900", 2, 1.0),  # half of both: one thread's worth
        (10, "40/900", 1, 1.0),  # fewer cores than the machine has: the count is of threads elsewhere too
        (1, "4/900", 2, 0.0),  # little
        (10, "nonsense", 1, 1.0),
    ],
)  # fmt: skip
def test_how_many_threads_of_others_want_a_cpu(tmp_path, busy_s, runnable, cores, threads):
    cpus = max(os.sched_getaffinity(0)) + 1
    if cores == 1 and os.cpu_count() == 1:
        pytest.skip("one CPU: there are no fewer cores")
    write_stat(tmp_path, busy_s=0, idle_s=0, cpus=cpus)
    (tmp_path / "proc/loadavg").write_text(f"0.1 0.1 0.1 {runnable} 4711")

    def later(_):
        write_stat(tmp_path, busy_s=100 * busy_s, idle_s=1000 - 100 * busy_s, cpus=cpus)

    assert threads_of_others(cores, root=tmp_path, pause=later) == pytest.approx(threads, rel=0.05)
