"""Peaks: measured once, stored for the user, read again; never below what an ordinary product reaches."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from accel.machine import measuring_peaks
from accel.machine.measuring_peaks import measure_peaks
from accel.machine.peaks import DevicePeaks, Peaks, peaks, peaks_path, read_peaks


@pytest.fixture(scope="module", autouse=True)
def in_little_time():
    """The rates need not be the best here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring_peaks, "BUDGET_S", 0.05)
        yield


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache folder of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "accel"


@pytest.fixture(scope="module")
def measured(in_little_time):
    return measure_peaks()


MADE_UP = Peaks(
    (DevicePeaks("cpu", "a processor", 2, (("float32", 1e11), ("bfloat16", 4e11)), 2e10, 1 << 20, 1e11),),
    "2.8.0", "2026-01-31T10:00:00", 2.1,
)  # fmt: skip


def test_measuring_leaves_random_numbers_and_settings_alone(measured):
    before = torch.get_rng_state(), torch.get_num_threads(), torch.is_grad_enabled()
    measure_peaks()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (torch.get_num_threads(), torch.is_grad_enabled()) == before[1:]


def test_a_peak_is_at_least_what_a_single_product_or_copy_reaches(measured):
    cpu = measured.of("cpu")
    left = torch.ones(256, 256)
    started = time.perf_counter()
    left @ left
    product = 2 * 256**3 / (time.perf_counter() - started)
    assert 0.5 * product < cpu.flop_rate("float32")  # the first product of a process is never the fastest
    assert cpu.bytes_per_s > 1e8
    assert measured.seconds > 0
    assert cpu.threads == torch.get_num_threads()


def store(found):
    path = peaks_path()
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(found.to_dict()))


def test_peaks_are_stored_in_the_users_cache(cache):
    found = peaks()
    assert [path.parent for path in cache.iterdir()] == [cache]
    assert found == read_peaks(peaks_path())
    assert peaks_path().parent == cache


def test_stored_peaks_are_read_and_not_measured_again(cache):
    store(MADE_UP)
    assert peaks() == MADE_UP


def test_peaks_measured_beside_other_work_are_measured_again_and_say_so(cache):
    busy = replace(MADE_UP, was_busy=True)
    assert "measured again the next time" in str(busy)
    assert "measured again the next time" not in str(MADE_UP)
    store(busy)
    assert peaks().measured != MADE_UP.measured


def test_another_thread_count_has_peaks_of_its_own(cache):
    before, threads = peaks_path(), torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        assert peaks_path() != before
    finally:
        torch.set_num_threads(threads)
    assert peaks_path() == before


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[]", "null", '{"devices": []}', '{"devices": [{"device": "cpu"}]}', '{"devices": [3]}'],
)
def test_a_damaged_file_is_measured_again(tmp_path, damage):
    path = tmp_path / "peaks.json"
    path.write_text(damage)
    assert read_peaks(path) is None
    assert read_peaks(tmp_path / "missing.json") is None


def test_measuring_again_keeps_the_higher_rate(cache):
    fast = replace(MADE_UP.devices[0], flops_per_s=(("float32", 1e18), ("bfloat16", 1.0)), bytes_per_s=1.0)
    store(replace(MADE_UP, devices=(fast,)))
    again = peaks(again=True).of("cpu")
    assert again.flop_rate("float32") == 1e18
    assert again.flop_rate("bfloat16") > 1.0
    assert again.bytes_per_s > 1.0
    assert read_peaks(peaks_path()).of("cpu") == again


def test_a_cache_that_cannot_be_written_costs_only_the_storing(tmp_path, monkeypatch):
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a file"))
    assert peaks().of("cpu").bytes_per_s > 0


def test_rates_are_those_of_the_dtype_and_of_the_place_the_data_fits_in():
    cpu = MADE_UP.of("cpu")
    assert cpu.flop_rate("float16") == cpu.flop_rate("bfloat16") == 4e11
    assert cpu.flop_rate("int64") == cpu.flop_rate("float64") == 1e11
    assert cpu.byte_rate(1 << 10) == 1e11
    assert cpu.byte_rate(1 << 21) == 2e10
    assert MADE_UP.of("cuda:0") is None


def test_peaks_read_well_and_escape_names():
    assert str(MADE_UP).splitlines() == [
        "Peaks measured on this machine, 2026-01-31 10:00, torch 2.8.0",
        "  cpu (a processor, 2 threads): float32 100 GFLOP/s, bfloat16 400 GFLOP/s, memory 20 GB/s, caches 100 GB/s",
    ]
    html = replace(MADE_UP, devices=(replace(MADE_UP.devices[0], name="<b>"),))._repr_mimebundle_()[
        "text/html"
    ]
    assert "<b>" not in html
    assert "&lt;b&gt;" in html


def test_three_levels_of_memory_each_have_their_rate():
    cpu = replace(
        MADE_UP.of("cpu"), cache_bytes=32 << 20, cache_bytes_per_s=7e10,
        core_cache_bytes=2 << 20, core_cache_bytes_per_s=17e10,
    )  # fmt: skip
    rates = [cpu.byte_rate(size) for size in (512 << 10, 2 << 20, 30 << 20, 33 << 20)]
    assert rates == [17e10, 17e10, 7e10, 2e10]
    assert "caches 70 GB/s, the cores' own 170 GB/s" in str(cpu)


def test_the_levels_of_this_machine_are_told_from_small_to_large(measured):
    cpu = measured.of("cpu")
    assert 0 < cpu.core_cache_bytes <= cpu.cache_bytes
    assert cpu.core_cache_bytes_per_s > 0
    assert cpu.cache_bytes_per_s > 0


def test_gpus_are_measured_by_a_process_of_their_own_that_writes_what_is_read_here():
    child = subprocess.run(
        [sys.executable, "-m", measuring_peaks.MEASURING_GPUS], capture_output=True, check=True
    )
    found = [DevicePeaks.from_dict(one) for one in json.loads(child.stdout)]
    assert [gpu.device for gpu in found] == [f"cuda:{index}" for index in range(len(found))]
    assert torch.cuda.is_available() or found == []
    assert DevicePeaks.from_dict(json.loads(json.dumps(MADE_UP.devices[0].to_dict()))) == MADE_UP.devices[0]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_measuring_leaves_the_users_gpu_memory_alone():
    before = torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved()
    measure_peaks()
    assert (torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved()) == before


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_a_gpu_multiplies_faster_with_tensor_cores(measured):
    gpu = measured.of("cuda:0")
    assert gpu.flop_rate("bfloat16") > gpu.flop_rate("float32")
