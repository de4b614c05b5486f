"""What the machine does, sampled: rates from counters, the ring, the summary, the thread and its cost."""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import accel
from accel.cli import main
from accel.errors import AccelError
from accel.machine.cgroup import MemoryLimit
from accel.machine.telemetry import Monitor, Sampler
from accel.machine.telemetry.child_processes import ChildProcesses, _by_parents, descendants
from accel.machine.telemetry.gpu_load import GpuReader
from accel.machine.telemetry.load_history import LoadHistory
from accel.machine.telemetry.load_in_words import in_a_sentence, tiles
from accel.machine.telemetry.proc_reader import ProcReader
from accel.machine.telemetry.psutil_reader import PsutilReader
from accel.machine.telemetry.terminal_view import _draw_until_over, lines_of, watch
from tests.machine.fake_proc import FakeClock, FakeProc
from tests.machine.nvml_under_load import FakeNvml

TICK_S = 1 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01
needs_proc = pytest.mark.skipif(not Path("/proc/stat").exists(), reason="this system has no /proc")


class Bench:
    """A sampler over a /proc, a driver and clocks that the test moves."""

    def __init__(self, tmp_path, nvml=None, allowed=(), cgroups=None, **settings):
        self.proc, self.clock, self.process_cpu, self.cpu = (
            FakeProc(tmp_path),
            FakeClock(),
            FakeClock(),
            FakeClock(),
        )
        self.proc.cpus((0, 0), (0, 0))
        reader = ProcReader(
            tmp_path, clock=self.clock, process_cpu=self.process_cpu, limit=lambda: None,
            allowed=allowed, cgroups=tmp_path if cgroups is None else cgroups,
        )  # fmt: skip
        self.sampler = Sampler(
            host=reader, gpus=GpuReader(nvml or FakeNvml(Count=0)), clock=self.clock, cpu_clock=self.cpu, **settings
        )  # fmt: skip

    def step(self, *ticks, seconds=0.5, cost_s=0.0, process_cpu_s=0.0):
        """Let time pass, the counters stand at `ticks`, and take a sample that costs so much."""
        if ticks:
            self.proc.cpus(*ticks)
        self.clock.now_s += seconds
        self.process_cpu.now_s += process_cpu_s
        self.cpu.now_s += cost_s
        return self.sampler.measured_sample()


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path / "proc")
    yield made
    made.sampler.close()


# --- rates from counters ----------------------------------------------------------------------------------------------


def test_a_core_is_as_busy_as_its_counters_grew(bench):
    sample = bench.step((25, 25), (50, 0), process_cpu_s=0.6)
    assert sample.busy == (0.5, 1.0)
    assert sample.cpu_busy == 0.75
    assert sample.process_cores == pytest.approx(1.2)
    again = bench.step((25, 75), (50, 50))
    assert again.busy == (0.0, 0.0)
    assert again.process_cores == 0.0


def test_waiting_for_a_disk_and_stolen_time_are_not_busy_and_guests_count_once(bench):
    #  user nice system idle iowait irq softirq steal guest guest_nice
    line = "20 0 10 30 20 5 5 10 20 0"
    bench.proc.stat(f"cpu0 {line}", "cpu1 0 0 0 100 0 0 0 0 0 0", of_all="cpu  20 0 10 130 20 5 5 10 20 0")
    sample = bench.step(seconds=1.0)
    assert sample.busy == (0.4, 0.0)
    assert sample.stolen == 0.05
    assert sample.waiting_for_disk == 0.1


def test_counters_that_step_back_give_a_share_within_its_bounds(bench):
    bench.step((50, 50), (50, 50))
    sample = bench.step((40, 160), (50, 50))  # the kernel's idle time may be corrected
    assert sample.busy == (0.0, None)


def test_a_cpu_that_comes_on_line_later_has_no_share_at_first_and_one_that_goes_is_nan(bench):
    sample = bench.step((10, 40), (10, 40), (500, 500))
    assert sample.busy == (0.2, 0.2, None)
    bench.step((20, 80))
    assert math.isnan(bench.sampler.history["cpu1_busy"][-1])
    assert bench.sampler.history["cpu0_busy"][-1] == 0.2


def test_under_a_mask_the_cpus_that_this_process_may_use_are_told_and_not_the_hosts(tmp_path):
    bench = Bench(tmp_path / "proc", allowed=(1, 7))  # CPU 7 is off-line
    sample = bench.step((50, 0), (10, 40), seconds=0.5)
    assert (sample.cpu_busy, sample.allowed_busy, sample.allowed) == (
        pytest.approx(0.6),
        pytest.approx(0.2),
        (1,),
    )
    cpu = tiles(sample)[0]
    assert (cpu.value, cpu.detail) == ("20 %", "of the 1 of 2 CPUs that this process may use: 1")
    monitor = Monitor.of(bench.sampler)
    monitor.pause()
    summary = monitor.summary()
    assert summary.headline == "Over 0.5 s the 1 of 2 CPUs that this process may use were 20 % busy."
    assert summary["cpu_busy"].mean == pytest.approx(0.6)
    assert "all 2 CPUs" in str(summary)
    monitor.close()


def test_a_container_with_a_quota_is_told_what_it_used_of_it_and_how_often_it_was_stopped(tmp_path):
    cgroup = tmp_path / "host/sys/fs/cgroup/cpu.max"
    cgroup.parent.mkdir(parents=True)
    cgroup.write_text("150000 100000\n")
    stat = cgroup.with_name("cpu.stat")
    stat.write_text("usage_usec 1000000\nuser_usec 1\nnr_periods 10\nnr_throttled 2\nthrottled_usec 5\n")
    bench = Bench(tmp_path / "proc", allowed=(0, 1), cgroups=tmp_path / "host")
    stat.write_text("usage_usec 2500000\nuser_usec 1\nnr_periods 30\nnr_throttled 7\nthrottled_usec 5\n")
    sample = bench.step((10, 90), (10, 90), seconds=2.0)
    assert (sample.quota_used, sample.stopped_by_quota) == (pytest.approx(0.5), pytest.approx(0.25))
    assert tiles(sample)[0].detail == (
        "2 CPUs · 50 % of the container's quota of 1.5 cores · stopped by the quota in 25 % of the periods"
    )
    monitor = Monitor.of(bench.sampler)
    monitor.pause()
    assert monitor.summary().headline == (
        "Over 2.0 s the CPUs were 10 % busy and the container used 50 % of its quota of 1.5 cores."
    )
    assert "stopped by the quota, share of periods" in str(monitor.summary())
    monitor.close()


@needs_proc
def test_the_mask_of_this_process_is_told_to_the_monitor():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two CPUs are needed")
    one = min(os.sched_getaffinity(0))
    code = (
        f"import os; os.sched_setaffinity(0, [{one}])\nimport accel\nwith accel.monitor() as load: pass\n"
        "print(load.snapshot())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert f"of the 1 of {os.sysconf('SC_NPROCESSORS_ONLN')} CPUs that this process may use: {one}" in told


@needs_proc
def test_every_cpu_is_read_whatever_python_was_told_of_their_number(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # as under PYTHON_CPU_COUNT=1
    monkeypatch.setattr(
        os, "sysconf", {"SC_NPROCESSORS_CONF": 64, "SC_PAGE_SIZE": 4096, "SC_CLK_TCK": 100}.get
    )
    reader = ProcReader()
    assert reader._stat_bytes > 64 * 100  # a line of a CPU that ran for long
    reader.close()


def test_memory_and_load_are_as_the_system_says(bench):
    bench.proc.memory(total_kib=8 << 20, available_kib=6 << 20)
    sample = bench.step((1, 1), (1, 1))
    assert (sample.memory_bytes, sample.used_bytes) == (8 << 30, 2 << 30)
    assert (sample.swap_used_bytes, sample.load) == (1 << 20, 1.25)
    assert sample.process_rss_bytes == 256 * os.sysconf("SC_PAGE_SIZE")


def test_what_proc_does_not_hold_is_told_in_words_and_the_rest_still_works(tmp_path):
    reader = ProcReader(tmp_path, clock=FakeClock())
    assert any("/proc/stat" in sentence for sentence in reader.notes)
    assert any("/proc/meminfo" in sentence for sentence in reader.notes)
    sampler = Sampler(host=reader, gpus=GpuReader(FakeNvml(Count=0)), clock=FakeClock())
    assert "CPU unknown" in in_a_sentence(sampler.sample())
    assert "memory unknown" in in_a_sentence(sampler.latest)
    sampler.close()


@needs_proc
def test_children_beyond_those_that_are_watched_are_told(monkeypatch):
    monkeypatch.setattr("accel.machine.telemetry.child_processes.MOST_CHILDREN", 0)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        reader = ProcReader(clock=FakeClock())
        assert not any("child processes" in sentence for sentence in reader.notes)
        assert reader.read().children == ()
        assert any("more child processes than are watched" in sentence for sentence in reader.notes)
        reader.close()
        child.stdin.close()


def test_a_container_has_the_memory_of_its_limit(tmp_path):
    proc, clock, used = FakeProc(tmp_path), FakeClock(), [1 << 30]
    proc.cpus((0, 0))
    reader = ProcReader(tmp_path, clock=clock, limit=lambda: MemoryLimit(2 << 30, used[0]))
    assert (reader.read().memory_bytes, reader.read().available_bytes) == (2 << 30, 1 << 30)
    used[0] = 3 << 29
    clock.now_s += 5
    assert reader.read().available_bytes == 1 << 29
    assert any("container" in sentence for sentence in reader.notes)
    reader.close()
    roomy = ProcReader(tmp_path, clock=clock, limit=lambda: MemoryLimit(64 << 30, 1 << 30))
    assert roomy.read().memory_bytes == 8 << 30
    assert roomy.notes == ()
    roomy.close()


# --- children ---------------------------------------------------------------------------------------------------------


def test_children_are_counted_by_what_they_are_with_their_own_cpu_time(bench):
    proc = bench.proc
    proc.process(501, ticks=1000, name="pt_data_worker")
    proc.process(502, ticks=1000, name="pt_data_worker")
    proc.process(503, ticks=0, command="python -m accel.workers.worker_main")
    proc.process(504, ticks=0, name="pt_data_worker")
    proc.children_of(os.getpid(), 501, 502, 503)
    proc.children_of(503, 504)  # a loader worker of a trial worker
    bench.step((1, 1), (1, 1), seconds=3.0)  # they are found: what they did before is not of this interval
    assert bench.sampler.latest.of_kind("loader").cores == 0.0
    proc.process(501, ticks=1000 + round(0.25 / TICK_S), name="pt_data_worker")
    proc.process(503, ticks=round(0.5 / TICK_S), command="python -m accel.workers.worker_main")
    loader, trial = (bench.step((2, 2), (2, 2)).of_kind(kind) for kind in ("loader", "trial"))
    assert (loader.count, trial.count) == (3, 1)
    assert loader.cores == pytest.approx(0.5)
    trial = bench.sampler.history["trial_cores"]
    assert trial[-2] == pytest.approx(1.0)
    assert loader.rss_bytes == 3 * 100 * os.sysconf("SC_PAGE_SIZE")


def test_a_worker_that_is_named_after_it_was_found_is_soon_known_by_its_name(tmp_path):
    proc, cpu = FakeProc(tmp_path), FakeClock()
    proc.process(501, ticks=0)
    proc.children_of(7, 501)
    children = ChildProcesses(7, tmp_path, cpu_clock=cpu)
    assert children.read(0.0)[0].kind == "other"
    proc.process(501, ticks=0, name="pt_data_worker")
    assert children.read(1.0)[0].kind == "loader"
    children.close()


@needs_proc
def test_children_that_live_shorter_than_a_search_lasts_are_counted_from_their_beginning(bench):
    bench.step((0, 100), (0, 100))
    one_second = round(1 / TICK_S)
    for pid in (501, 502):  # as an epoch's loader workers, one after the other
        began = round(time.clock_gettime(time.CLOCK_BOOTTIME) / TICK_S) + 1
        bench.proc.process(pid, ticks=one_second // 4, name="pt_data_worker", began=began)
        bench.proc.children_of(os.getpid(), pid)
        sample = bench.step((50, 150), (0, 200))
        assert dict(sample.children)["loader"].cores == pytest.approx(0.5)  # 0.25 s of the last 0.5 s
        bench.proc.process(pid, ticks=one_second // 2, name="pt_data_worker", began=began)
        assert dict(bench.step((50, 150), (0, 200)).children)["loader"].cores == pytest.approx(0.5)


def test_a_search_that_is_dear_is_made_less_often(tmp_path):
    proc = FakeProc(tmp_path)
    proc.children_of(7)
    readings = iter([0.0, 0.1, 0.1, 0.2])  # each search takes 0.1 s of CPU time
    children = ChildProcesses(7, tmp_path, cpu_clock=lambda: next(readings))
    children.read(0.0)
    proc.process(501, ticks=0)
    proc.children_of(7, 501)
    assert children.read(19.0) == ()
    assert len(children.read(20.5)) == 1
    children.close()


@needs_proc
def test_a_child_that_ends_is_forgotten_without_an_error_and_its_file_closed():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    children = ChildProcesses(os.getpid())
    assert child.pid in {each.pid for each in children.read(0.0)}
    open_before = len(os.listdir("/proc/self/fd"))
    child.communicate(b"\n")
    assert child.pid not in {each.pid for each in children.read(1.0)}
    children.read(3.0)
    assert len(os.listdir("/proc/self/fd")) < open_before
    children.close()


@needs_proc
def test_both_ways_to_find_children_find_the_same():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in descendants(os.getpid())
        assert sorted(_by_parents(os.getpid(), "/proc")) == sorted(descendants(os.getpid()))
    finally:
        child.communicate(b"\n")


# --- other systems ----------------------------------------------------------------------------------------------------


@needs_proc
def test_psutil_and_proc_agree_on_this_machine():
    by_proc, by_psutil = ProcReader(), PsutilReader()
    one, other = by_proc.read(), by_psutil.read()
    assert one.cpus == other.cpus
    assert one.memory_bytes == other.memory_bytes
    assert sum(other.busy) == pytest.approx(sum(one.busy) * TICK_S, rel=0.02, abs=1.0)
    assert sum(other.total) == pytest.approx(sum(one.total) * TICK_S, rel=0.02, abs=1.0)
    assert other.process_rss_bytes == pytest.approx(one.process_rss_bytes, rel=0.2)
    by_proc.close()


def test_with_psutil_alone_everything_but_loaders_is_told():
    sampler = Sampler(host=PsutilReader(), gpus=GpuReader(FakeNvml(Count=0)))
    sampler.sample()
    assert sampler.latest.memory_bytes > 0
    assert any("Loader workers are counted as other children" in note for note in sampler.notes)
    sampler.close()


# --- GPUs, by a driver that stands in ---------------------------------------------------------------------------------


def busy_gpu(**answers):
    return FakeNvml(
        UtilizationRates=SimpleNamespace(gpu=38, memory=12),
        MemoryInfo=SimpleNamespace(used=12 << 30, total=80 << 30),
        TotalEnergyConsumption=1_000_000, PowerUsage=70_000, EnforcedPowerLimit=700_000, Temperature=61, ClockInfo=1980,
        CurrentClocksEventReasons=0x1, **answers,
    )  # fmt: skip


def test_a_gpu_is_told_with_rates_from_its_counters(tmp_path):
    nvml = busy_gpu()
    nvml.fields = {197: 0, 198: 1 << 40, 138: 0, 139: 0}
    bench = Bench(tmp_path / "proc", nvml)
    assert bench.sampler.latest.gpus[0].power_w == 70  # no reading before: the meter of the moment
    nvml.answers["TotalEnergyConsumption"] += 120_000  # mJ in half a second
    nvml.fields = {197: 1_000_000_000, 198: (1 << 40) + 4_000_000_000, 138: 1 << 20, 139: 2 << 20}
    gpu = bench.step((1, 1), (1, 1)).gpus[0]
    assert (gpu.name, gpu.busy, gpu.memory_used_bytes, gpu.temperature_c, gpu.sm_mhz) == (
        "NVIDIA H100",
        0.38,
        12 << 30,
        61,
        1980,
    )
    assert gpu.power_w == pytest.approx(240)
    assert (gpu.pcie_out_bytes_s, gpu.pcie_in_bytes_s) == (2e9, 8e9)
    assert (gpu.nvlink_out_bytes_s, gpu.nvlink_in_bytes_s) == (2 << 30, 4 << 30)  # counted in KiB
    assert gpu.slowed_by == ""  # idle clocks take nothing away
    assert "12.0 of 80.0 GiB · 240 of 700 W · 61 °C · 1980 MHz · PCIe 8.00 GB/s in, 2.00 GB/s out" in str(
        tiles(bench.sampler.latest)[-1]
    )
    bench.sampler.close()


def test_a_counter_that_begins_anew_gives_no_rate(tmp_path):
    nvml = busy_gpu()
    nvml.fields = {197: 1000, 198: 1000}
    bench = Bench(tmp_path / "proc", nvml)
    nvml.fields = {197: 10, 198: 2000}
    gpu = bench.step().gpus[0]
    assert gpu.pcie_out_bytes_s is None
    assert gpu.pcie_in_bytes_s == 2000
    bench.sampler.close()


def test_what_slows_a_gpu_down_is_said_in_words(tmp_path):
    nvml = busy_gpu()
    bench = Bench(tmp_path / "proc", nvml)
    nvml.answers["CurrentClocksEventReasons"] = 0x1 | 0x4 | 0x20 | 0x40
    assert (
        bench.step().gpus[0].slowed_by
        == "the power limit, heat (slowed down by the driver), heat (slowed down by the hardware)"
    )
    assert "slowed down by: the power limit" in in_a_sentence(bench.sampler.latest)
    assert Monitor.of(bench.sampler).summary()["gpu0_is_slowed"].mean == 1.0
    bench.sampler.close()


def test_what_a_gpu_does_not_know_is_asked_once_and_is_none(tmp_path):
    nvml = FakeNvml(MemoryInfo=SimpleNamespace(used=1 << 30, total=8 << 30))  # as with MIG: no utilisation
    bench = Bench(tmp_path / "proc", nvml)
    for _ in range(3):
        gpu = bench.step().gpus[0]
    assert (gpu.busy, gpu.power_w, gpu.pcie_in_bytes_s, gpu.nvlink_in_bytes_s) == (None, None, None, None)
    assert nvml.asked["UtilizationRates"] == nvml.asked["FieldValues"] == nvml.asked["PcieThroughput"] == 1
    assert nvml.asked["MemoryInfo"] == 4
    assert "GPU 0 unknown (1.0 of 8.0 GiB)" in in_a_sentence(bench.sampler.latest)
    assert Monitor.of(bench.sampler).summary().get("gpu0_busy") is None
    bench.sampler.close()


def test_pcie_traffic_that_takes_the_driver_a_while_is_asked_for_now_and_then(tmp_path):
    nvml = busy_gpu(PcieThroughput=5000)
    bench = Bench(tmp_path / "proc", nvml)
    for _ in range(7):
        gpu = bench.step().gpus[0]
    assert gpu.pcie_in_bytes_s == 5_000_000
    assert nvml.asked["PcieThroughput"] == 4  # both ways, at the first and the fifth of eight readings
    bench.sampler.close()


# --- history and summary ----------------------------------------------------------------------------------------------


def test_the_ring_keeps_the_last_rows_in_order():
    history = LoadHistory(("time_s", "x"), capacity=4)
    assert len(history.rows()) == 0
    for at in range(7):
        history.append([at, 10 * at])
        assert list(history["time_s"]) == list(range(max(0, at - 3), at + 1))
    assert history.rows(last=2).tolist() == [[5, 50], [6, 60]]
    assert list(history.to_dataframe().columns) == ["time_s", "x"]
    with pytest.raises(ValueError, match="2 values"):
        history.append([1.0])


def test_a_summary_weighs_samples_by_the_time_that_lies_in_the_span(bench):
    bench.step((100, 0), (100, 0), seconds=1.0)  # 100 to 101: busy
    bench.step((100, 300), (100, 300), seconds=3.0)  # 101 to 104: idle
    monitor = Monitor.of(bench.sampler)
    monitor.pause()
    assert monitor.summary()["cpu_busy"].mean == pytest.approx(0.25)
    assert monitor.summary()["cpu_busy"].peak == 1.0
    half = monitor.summary(since_s=100.5, until_s=101.5)
    assert (half.seconds, half.samples) == (1.0, 2)
    assert half["cpu_busy"].mean == pytest.approx(0.5)
    assert monitor.summary(last_s=2)["cpu_busy"].peak == 0.0
    assert "the CPUs were 25 % busy" in monitor.summary().headline
    assert monitor.summary(since_s=500.0, until_s=501.0).samples == 0
    assert "No sample" in str(monitor.summary(since_s=500.0, until_s=501.0))
    monitor.close()


@pytest.mark.parametrize("other", ["last_s", "since_s", "until_s"])
def test_a_cell_says_the_span_alone(bench, other):
    monitor = Monitor.of(bench.sampler)
    monitor.cells[3] = (100.0, 101.0)
    with pytest.raises(AccelError, match="Give cell alone"):
        monitor.summary(cell=3, **{other: 1.0})
    monitor.close()


def test_a_summary_says_what_the_ring_has_lost(tmp_path):
    bench = Bench(tmp_path / "proc", minutes=0.1)  # twelve samples
    for at in range(1, 13):
        bench.step((at, at), (at, at))
    monitor = Monitor.of(bench.sampler)
    monitor.pause()
    assert not any("not in it" in note for note in monitor.summary().notes)
    for at in range(13, 21):
        bench.step((at, at), (at, at))
    assert any(
        "The first 4 s are not in it: only the last 12 samples" in note for note in monitor.summary().notes
    )
    assert not any("not in it" in note for note in monitor.summary(last_s=3).notes)
    monitor.close()


def test_what_happened_during_a_pause_belongs_to_no_sample(bench):
    bench.step((0, 50), (0, 50))
    monitor = Monitor.of(bench.sampler)
    monitor.pause()
    bench.proc.cpus((1000, 50), (1000, 50))
    bench.clock.now_s += 60
    monitor.resume()
    monitor.pause()
    assert bench.step((1000, 100), (1000, 100)).busy == (0.0, 0.0)
    assert monitor.summary().seconds == pytest.approx(1.0)


def test_a_name_that_was_not_told_names_those_that_were(bench):
    bench.step((1, 1), (1, 1))
    with pytest.raises(KeyError, match="cpu_busy"):
        Monitor.of(bench.sampler).summary()["gpu0_busy"]


def test_results_are_text_html_and_json(bench):
    bench.step((25, 25), (50, 0))
    monitor = Monitor.of(bench.sampler)
    monitor.pause()
    for result in (monitor.summary(), monitor.snapshot(), monitor):
        bundle = result._repr_mimebundle_()
        assert "75 %" in bundle["text/plain"]
        assert "75 %" in bundle["text/html"]
        assert "<script" not in bundle["text/html"]
        assert json.loads(json.dumps(result.to_dict()))
    assert "cpu_busy" in set(monitor.summary().to_dataframe()["name"])
    assert monitor.to_dataframe()["cpu1_busy"].iloc[-1] == 1.0


# --- the thread and what it costs -------------------------------------------------------------------------------------


def test_the_cost_is_the_threads_own_cpu_time_over_the_time_that_passed(bench):
    for _ in range(4):
        bench.step((1, 1), (1, 1), seconds=0.5, cost_s=0.001)
    assert bench.sampler.cost == pytest.approx(0.002)
    assert bench.sampler.period_s == 0.5
    assert not any("stays below" in note for note in bench.sampler.notes)


def test_above_one_percent_of_a_core_it_slows_down_says_so_and_recovers(bench):
    for _ in range(20):
        bench.step((1, 1), (1, 1), cost_s=0.02)
    assert bench.sampler.period_s == pytest.approx(2.0)
    assert any(
        "A sample takes 20.0 ms: one is taken every 2.0 s instead of every 0.5 s" in note
        for note in bench.sampler.notes
    )
    for _ in range(20):
        bench.step((1, 1), (1, 1), cost_s=0.001)
    assert bench.sampler.period_s == 0.5


@needs_proc
def test_it_samples_in_a_daemon_thread_until_it_is_closed():
    sampled = threading.Event()
    monitor = accel.monitor(every=0.05)
    monitor.sampler.listeners.append(lambda sample: sampled.set())
    assert sampled.wait(60)
    thread = next(each for each in threading.enumerate() if each.name == "accel telemetry")
    assert thread.daemon
    assert len(monitor.history) > 0
    open_before = len(os.listdir("/proc/self/fd"))
    monitor.close()
    assert not thread.is_alive()
    assert len(os.listdir("/proc/self/fd")) < open_before
    assert monitor.summary().samples > 0
    monitor.close()


def test_a_monitor_that_nobody_holds_ends():
    monitor = accel.monitor()
    thread = monitor.sampler._thread
    del monitor
    assert not thread.is_alive()


def test_it_ends_after_the_seconds_it_was_given():
    monitor = accel.monitor(0.2, every=0.05)
    monitor.sampler.join(60)
    assert not monitor.is_running
    assert monitor.summary().seconds >= 0.2


def test_it_ends_in_time_also_where_a_sample_would_last_longer():
    monitor = accel.monitor(0.2, every=600)
    monitor.sampler.join(60)
    assert not monitor.is_running
    assert 0.2 <= monitor.summary().seconds < 60
    assert len(monitor.history) == 1


def test_when_its_seconds_are_over_it_holds_no_file_does_not_go_on_and_says_so():
    monitor = accel.monitor(0.2, every=0.05)
    told = []
    monitor.sampler.call_at_end(lambda: told.append("ended"))
    monitor.sampler.join(60)
    assert told == ["ended"]
    assert monitor.sampler._host._stat is None or sys.platform != "linux"
    monitor.resume()
    assert not monitor.is_running
    monitor.close()
    monitor.sampler.call_at_end(lambda: told.append("at once"))
    assert told == ["ended", "at once"]


def test_many_that_start_it_at_once_start_one_thread(bench):
    together = threading.Barrier(8)

    def start():
        together.wait(30)
        bench.sampler.start()

    starters = [threading.Thread(target=start) for _ in range(8)]
    for each in starters:
        each.start()
    for each in starters:
        each.join()
    assert sum(each.name == "accel telemetry" for each in threading.enumerate()) == 1


def test_a_short_block_is_measured_whole():
    with accel.monitor(every=60) as load:
        sum(range(200_000))
    assert load.summary().samples == 1
    assert load.summary()["process_cores"].mean > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_does_not_sample_and_can_close_without_hanging():
    script = """
import os, accel
monitor = accel.monitor(every=0.05)
with monitor.sampler._lock:
    pid = os.fork()
if pid == 0:
    assert not monitor.is_running
    monitor.summary(); monitor.resume(); assert not monitor.is_running
    monitor.close()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
assert monitor.is_running
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_an_error_while_sampling_ends_it_and_is_told(bench):
    def broken(sample):
        raise RuntimeError("the page is gone")

    bench.sampler.listeners.append(broken)
    bench.sampler.every_s = 0.0
    bench.sampler.start()
    bench.sampler.join(60)
    assert not bench.sampler.is_running
    assert any("RuntimeError: the page is gone" in note for note in bench.sampler.notes)


# --- what a user asks for ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [{"seconds": 0}, {"seconds": -1}, {"every": 0}, {"every": 0.001}, {"every": math.inf}, {"every": 1e10}],
)
def test_times_that_make_no_sense_are_refused(asked):
    with pytest.raises(AccelError, match=r"monitor\("):
        accel.monitor(**asked)
    assert "accel telemetry" not in {each.name for each in threading.enumerate()}


def test_a_terminal_is_drawn_over_in_place_and_told_the_values(bench):
    sample = bench.step((25, 25), (50, 0))
    cpu, memory, *_ = lines_of(sample, {"memory": [0.0, 0.5, 1.0]}, width=100)
    assert cpu.startswith("CPU")
    assert "75 %" in cpu
    assert "▄█" in cpu
    assert " ▄█" in memory
    assert all(len(line) < 40 for line in lines_of(sample, {}, width=40))


def test_in_a_terminal_it_updates_in_place_and_elsewhere_nothing_is_drawn():
    class Terminal(io.StringIO):
        """Ends the monitor, as Ctrl-C would, when it was drawn three times: however long that takes here."""

        def isatty(self):
            return True

        def write(self, text):
            written = super().write(text)
            if self.getvalue().count("memory") == 3:
                self.monitor.sampler._over.set()
            return written

    screen = Terminal()
    with accel.monitor(every=0.05) as screen.monitor:
        _draw_until_over(screen.monitor, screen)
    assert screen.getvalue().startswith("Ctrl-C ends it.\n")
    lines = len(tiles(screen.monitor.sampler.latest))
    assert screen.getvalue().count(f"\x1b[{lines}F\x1b[J") == 2
    quiet = io.StringIO()
    assert watch(every=0.05, screen=quiet).summary().samples >= 1
    assert quiet.getvalue() == ""


def test_the_program_prints_a_summary_as_text_and_as_json(capsys):
    assert main(["monitor", "--seconds", "0.1", "--every", "0.05"]) == 0
    assert "the CPUs were" in capsys.readouterr().out
    assert main(["monitor", "--seconds", "0.1", "--every", "0.05", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["samples"] >= 1
    assert main(["monitor", "--every", "0"]) == 2
    assert "--every 0.0: a time is a number of seconds above 0" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no terminals of that kind")
def test_ctrl_c_in_a_terminal_ends_it_well_and_the_summary_follows():
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "accel.cli", "monitor", "--every", "0.1"])
    shown, is_asked = b"", False
    while True:
        try:
            read = os.read(terminal, 4096)
        except OSError:  # Linux tells the end of a terminal so
            break
        if not read:
            break
        shown += read
        if not is_asked and shown.count(b"memory") >= 2:
            os.write(terminal, b"\x03")
            is_asked = True
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert b"the CPUs were" in shown
    assert b"Traceback" not in shown
