"""Peaks: measured once, stored for the user, read again; never below what an ordinary product reaches."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from accel.machine.peaks import (
    AllReducePeak,
    AllReduces,
    Copies,
    CopyPeak,
    DevicePeaks,
    Peaks,
    gpus,
    known_peaks,
    measuring,
    peaks,
    peaks_path,
    read_peaks,
    timing,
)
from accel.machine.peaks import device_rates as products_of
from accel.machine.peaks.device_rates import each_dtype, gpu_products, moving, products
from accel.machine.peaks.measuring import measure_peaks
from accel.machine.peaks.measuring_child import measuring_child
from accel.views.peaks import of_devices


@pytest.fixture(scope="module", autouse=True)
def in_little_time():
    """The rates need not be the best here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "BUDGET_S", 0.05)
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
LINKS = AllReduces((AllReducePeak("gloo", "cpu", 2, 1 << 20, 1e-3),), ("nccl: no GPU here.",))


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
    # The first product of a process is never the fastest; where others had the cores, the answer says that it is too low.
    assert 0.5 * product < cpu.flop_rate("float32") or measured.was_busy
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
    assert "(the highest since 2026-01-31 10:00)" in str(known_peaks()).splitlines()[0]


def test_hosts_that_share_a_home_folder_have_peaks_of_their_own_and_cuda_is_not_started(cache, monkeypatch):
    here = peaks_path()
    monkeypatch.setattr("platform.node", lambda: "another-node")
    monkeypatch.setattr(torch.cuda, "get_device_name", None)  # it would start CUDA in the user's process
    assert peaks_path() != here


def test_a_gpu_is_asked_often_for_little_data_and_once_for_much(monkeypatch):
    calls = []

    def timed(work):
        calls.append(len(work()))
        return 1.0

    monkeypatch.setattr(timing, "BUDGET_S", 0.0)
    for total in (12 << 20, 900 << 20):
        moving(total, "meta", timed)  # as on the CPU; a GPU repeats them in a graph
    assert calls == [64, 64, 1, 1]


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
        "  cpu (a processor, 2 threads)",
        "    computing     float32 100 GFLOP/s, bfloat16 400 GFLOP/s",
        "    moving        memory 20 GB/s, caches 100 GB/s",
        "  All-reduce, and copies between GPUs: not measured yet, %accel peaks --links does.",
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


def test_no_line_is_long_however_much_was_measured():
    gpu = DevicePeaks(
        "cuda:0", "NVIDIA H100 80GB HBM3", 0, tuple((f"float{i}", 9.9e14) for i in range(20)), 3e12,
        not_measured=(("float8_e4m3fn", "needs compute capability 8.9, this GPU has 8.0"),),
    )  # fmt: skip
    rows = tuple(CopyPeak("cpu", "cuda:0", 2e10, 8.0, memory) for memory in ("pinned", "pageable"))
    whole = replace(
        MADE_UP,
        devices=(*MADE_UP.devices, gpu),
        copies=Copies(rows),
        all_reduces=LINKS,
        was_busy=True,
        notes=("x" * 90,),
    )
    assert max(map(len, str(whole).splitlines())) <= 110
    assert "990 TFLOP/s" in str(whole)
    assert "needs compute capability 8.9" in str(whole)
    assert "cpu to cuda:0: pinned 20 GB/s, pageable 20 GB/s; 4 KiB in 8 µs" in str(whole)
    assert "1 MiB in 1 ms (algorithmic 1.05 GB/s, bus 1.05 GB/s)" in str(whole)
    lines = "\n".join(of_devices(whole))
    assert "pageable 20 GB/s" in lines
    assert "All-reduce" not in lines
    html = whole._repr_mimebundle_()["text/html"]
    assert "pageable 20 GB/s" in html
    assert "no GPU here" in html
    assert Peaks.from_dict(json.loads(json.dumps(whole.to_dict()))) == whole


def test_every_dtype_has_a_rate_or_a_reason(measured):
    cpu = measured.of("cpu")
    known, missing = dict(cpu.flops_per_s), dict(cpu.not_measured)
    assert known.keys() | missing.keys() == {"float32", "bfloat16", "float16", "float64", "int8"}
    assert not known.keys() & missing.keys()
    assert all(rate > 0 for rate in known.values())
    assert all(missing.values())


def test_a_dtype_that_does_not_run_is_told_with_the_reason_and_float32_must_run():
    def measure(dtype):
        if dtype == "int8":
            raise RuntimeError("not implemented for 'Char'\n  at some line of C++")
        return 5.0

    assert each_dtype(("float32", "int8"), measure) == (
        (("float32", 5.0),),
        (("int8", "not implemented for 'Char'"),),
    )
    with pytest.raises(RuntimeError):
        each_dtype(("float32",), lambda _: measure("int8"))
    with pytest.raises(torch.OutOfMemoryError):
        each_dtype(("bfloat16",), lambda _: (_ for _ in ()).throw(torch.OutOfMemoryError()))


def test_a_gpu_without_the_tensor_cores_says_which_capability_has_them():
    rates, reasons = gpu_products(
        "cpu", (7, 5), timing.wall, (64, 256)
    )  # the products run here as they would there
    assert dict(rates).keys() >= {"float32", "bfloat16", "float64"}
    assert dict(reasons)["tf32"] == "needs compute capability 8.0, this GPU has 7.5"
    assert dict(reasons)["float8_e4m3fn"] == "needs compute capability 8.9, this GPU has 7.5"


@pytest.mark.parametrize("waiting_s", [0.0, 2e-3])
def test_loading_a_kernel_does_not_count_and_waiting_counts_least_on_large_products(monkeypatch, waiting_s):
    clock, loaded = [0.0], set()

    def product(dtype, rows, device):
        def multiply():
            clock[0] += waiting_s + 2 * rows**3 / 1e12 + (0.02 if rows not in loaded else 0.0)
            loaded.add(rows)

        return multiply

    def timed(work):
        started = clock[0]
        work()
        return clock[0] - started

    monkeypatch.setattr(products_of, "_product", product)
    monkeypatch.setattr(products_of.time, "perf_counter", lambda: clock[0])
    assert products("float32", "cpu", timed, 0.4, (256, 2048)) == pytest.approx(1e12, rel=0.2)
    assert loaded == {256, 512, 1024, 2048}
    assert clock[0] < 1.0


def test_products_of_eight_bit_floats_run_and_the_precision_of_float32_is_put_back():
    before = torch.backends.cuda.matmul.allow_tf32
    rates, reasons = gpu_products(
        "cpu", (8, 9), timing.wall, (64, 256)
    )  # torch has them on a CPU too, if not fast
    assert "float8_e4m3fn" in dict(rates) or "_scaled_mm" in dict(reasons)["float8_e4m3fn"]
    assert torch.backends.cuda.matmul.allow_tf32 == before


def test_what_was_measured_once_is_not_lost_when_it_is_missing_the_next_time():
    one = replace(MADE_UP.devices[0], not_measured=(("int8", "it failed"),))
    other = replace(one, flops_per_s=(*one.flops_per_s, ("int8", 1e12)), not_measured=())
    for merged in (one.higher(other), other.higher(one)):
        assert merged.flop_rate("int8") == 1e12
        assert merged.not_measured == ()


def test_what_was_measured_on_a_quiet_machine_is_not_called_too_low_by_a_busy_repeat():
    busy = replace(MADE_UP, was_busy=True)
    assert not busy.higher(MADE_UP).was_busy
    assert not MADE_UP.higher(busy).was_busy
    assert busy.higher(busy).was_busy
    assert not replace(LINKS, was_busy=True).shorter(LINKS).was_busy


def test_links_are_measured_only_when_asked_for_and_then_kept(cache, monkeypatch):
    asked = []
    monkeypatch.setattr(measuring, "measure_links", lambda: asked.append(1) or (Copies(), LINKS))
    store(MADE_UP)
    assert peaks().all_reduces is None
    assert peaks(links=True).all_reduces == LINKS
    assert peaks(links=True).all_reduce_s(1 << 20, 2) == 1e-3
    assert peaks().all_reduces == LINKS
    assert len(asked) == 1
    assert peaks(again=True).all_reduces == LINKS
    peaks(again=True, links=True)
    assert len(asked) == 2


def test_links_measured_beside_other_work_are_measured_again_by_the_next_process_and_say_so(
    cache, monkeypatch
):
    asked = []
    monkeypatch.setattr(measuring, "measure_links", lambda: asked.append(1) or (Copies(), LINKS))
    busy = replace(MADE_UP, all_reduces=replace(LINKS, was_busy=True))
    assert "measured again the next time" in str(busy)
    store(busy)
    assert peaks(links=True).all_reduces.was_busy is False
    assert len(asked) == 1


def test_a_file_of_the_older_form_is_measured_again(cache):
    told = MADE_UP.to_dict()
    del told["copies"], told["all_reduces"], told["notes"]
    path = peaks_path()
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(told))
    assert known_peaks() is None
    assert peaks().measured != MADE_UP.measured
    assert known_peaks() == peaks()


def test_the_levels_of_this_machine_are_told_from_small_to_large(measured):
    cpu = measured.of("cpu")
    assert 0 < cpu.core_cache_bytes <= cpu.cache_bytes
    assert cpu.core_cache_bytes_per_s > 0
    assert cpu.cache_bytes_per_s > 0


CHILD = """
import os, sys
from accel.machine.peaks.measuring_child import Measured
from accel.processes.child_main import begin
from accel.views.peaks import of_devices
channel = begin(int(sys.argv[1]), int(sys.argv[2]), Measured)
channel.send(Measured({"busy": "cuda:0 was 87 % at work for others before it was measured."}))
"""


def test_gpus_are_measured_by_a_process_of_their_own_that_says_what_is_read_here():
    messages, problem = measuring.messages_of(measuring_child(measuring.MEASURING_GPUS))
    found = [DevicePeaks.from_dict(one["device"]) for one in messages if "device" in one]
    assert problem == ""
    assert [gpu.device for gpu in found] == [f"cuda:{index}" for index in range(len(found))]
    assert torch.cuda.is_available() or found == []
    assert DevicePeaks.from_dict(json.loads(json.dumps(MADE_UP.devices[0].to_dict()))) == MADE_UP.devices[0]


def test_what_a_child_said_before_it_died_is_read_with_its_last_words(tmp_path, monkeypatch):
    (tmp_path / "dying_child.py").write_text(CHILD + "print('NCCL version 2', flush=True)\nos._exit(3)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    messages, problem = measuring.messages_of(measuring_child("dying_child"))
    assert [next(iter(one)) for one in messages] == ["busy"]
    assert problem == "NCCL version 2"


def test_a_child_that_fails_is_reported_with_its_last_words(monkeypatch):
    monkeypatch.setattr(measuring, "_gpu_count", lambda: 1)
    monkeypatch.setattr(measuring, "MEASURING_GPUS", "accel.no_such_module")
    messages, _, notes = measuring._gpus()
    assert messages == []
    assert "no_such_module" in notes[0]


def test_a_gpu_without_room_is_reported_and_takes_no_other_back(monkeypatch):
    def measure(index):
        if index == 1:
            raise torch.OutOfMemoryError
        return replace(MADE_UP.devices[0], device=f"cuda:{index}", threads=0)

    def properties(index):
        return SimpleNamespace(uuid=f"uuid {index}")

    copies = [CopyPeak("cpu", "cuda:0", 2e10, 8.0, "pinned")]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(gpus, "gpus_at_work", lambda _, uuids: {uuids.index("uuid 2"): 87})
    monkeypatch.setattr(gpus, "_gpu", measure)
    monkeypatch.setattr(gpus, "host_copies", lambda *_: copies)
    messages = [json.loads(json.dumps(one)) for one in gpus.measure_gpus()]
    assert [next(iter(one)) for one in messages] == ["busy", "device", "copies", "note", "device", "copies"]
    assert "cuda:2 was 87 %" in messages[0]["busy"]
    assert messages[3]["note"].startswith("cuda:1: too little memory")
    assert Copies.from_dict(messages[2]["copies"]).rate("cpu", "cuda:0", pinned=True) == 2e10


def test_a_gpu_that_was_at_work_makes_the_peaks_of_a_busy_machine(tmp_path, monkeypatch):
    (tmp_path / "child_of_a_busy_gpu.py").write_text(CHILD)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(measuring, "_gpu_count", lambda: 1)
    monkeypatch.setattr(measuring, "MEASURING_GPUS", "child_of_a_busy_gpu")
    assert measuring._gpus()[1:] == (True, ("cuda:0 was 87 % at work for others before it was measured.",))
