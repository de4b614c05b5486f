"""A GPU in the report: its figures in plain words, long kernel names cut, and the stamp with what to do."""

from __future__ import annotations

from dataclasses import replace
from html import unescape

import pytest

from accel.html_parts import text
from accel.profiling.completeness import NOTHING, Completeness
from accel.profiling.kineto_columns import read_columns
from accel.profiling.profiled_events import read_events
from accel.profiling.reading_device_activity import read_device_activity
from accel.views.profile.devices import DEVICES
from tests.profiling.gpu_trace import (
    ALLREDUCE,
    COPIES,
    GEMM,
    NCCL,
    PAGEABLE,
    PINNED,
    RELU,
    GpuTrace,
    training_on_gpu,
)

EVIL = "<img src=x onerror=alert(1)>"


def devices_of(trace):
    return read_device_activity(read_events(read_columns(trace.events)))


@pytest.fixture
def on_gpu(real_profile):
    return replace(real_profile, devices=devices_of(training_on_gpu()))


def html_of(profile):
    return "".join(text(part) for part in DEVICES.html(profile)).replace("\N{NO-BREAK SPACE}", " ")


def test_busy_time_idle_time_copies_and_kernels_are_told_in_words(on_gpu):
    told = " ".join(" ".join(DEVICES.text(on_gpu)).split())
    assert "On the GPU (cuda:0): busy 47 % of each step (1 ms)" in told
    assert "Idle 53 %, 43 % because the CPU launched its work late" in told
    assert "Waiting for data 10 %" in told
    assert "Host to device, pageable memory: 50 µs per step in 1 copy, 64 KiB at 1.31 GB/s" in told
    assert (
        "3 kernels per step, median 0.2 ms; 95 % of kernel time on tensor cores (AMD: matrix cores)" in told
    )
    assert "aten::mm · Forward (and 1 other caller)" in told


def test_the_html_has_the_same_figures(on_gpu):
    html = html_of(on_gpu)
    for figure in ("busy 47 %", "53 %", "43 %", "64 KiB", "1.31", "95 %", "aten::mm", "pageable memory"):
        assert figure in html


def test_pinned_copies_and_hidden_communication_are_named(real_profile):
    trace = training_on_gpu(0, copy=PINNED)
    for _ in range(5):
        trace.phase("backward", 0, 900)
        trace.launch("aten::copy_", 10, PINNED, 100, 200)
        trace.launch("c10d::allreduce_", 50, ALLREDUCE, 300, 700, stream=NCCL)
        trace.end_step()
    profile = replace(real_profile, devices=devices_of(trace))
    told = "\n".join(DEVICES.text(profile))
    assert "Host to device, pinned memory: 0.1 ms per step in 1 copy\n" in told
    assert "Communication between GPUs: 0.4 ms per step, 0.0 % of it while other kernels ran" in told
    assert "Communication, 0.0 % of it while other kernels ran" in html_of(profile)


def with_kernels(profile, *kernels):
    """The profile with a GPU that runs these, (name, µs), one after the other."""
    trace = GpuTrace()
    for _ in range(5):
        trace.phase("forward", 0, 900)
        begins = 100
        for number, (name, lasts) in enumerate(kernels):
            trace.launch(f"aten::op{number}", 10 + 10 * number, name, begins, begins + lasts)
            begins += lasts
        trace.end_step()
    return replace(profile, devices=devices_of(trace))


BY_NAMES = "of kernel time on tensor cores (AMD: matrix cores), judging by kernel names"
MFMA = "Cijk_Alik_Bljk_BBS_BH_MT256x256x64_MI16x16x1_SN"


@pytest.mark.parametrize(
    ("kernels", "said"),
    [
        ([("triton_tem_fused_mm_0", 400)], "kernel names do not say whether 100 % of kernel time used tensor cores"),
        ([("fused_moe_kernel", 300), (RELU, 100)], "kernel names do not say whether 75 % of kernel time used tensor cores"),
        ([(RELU, 300), ("fused_moe_kernel", 100)], f"0.0 % {BY_NAMES}; for another 25 %, the names do not say which cores ran"),
        (
            [(GEMM, 300), ("triton_tem_fused_mm_0", 100)],
            f"75 % {BY_NAMES}; for another 25 %, the names do not say which cores ran",
        ),
        ([(MFMA, 300), (RELU, 100)], f"75 % {BY_NAMES}"),
        ([(RELU, 400)], f"0.0 % {BY_NAMES}"),
    ],
)  # fmt: skip
def test_kernels_whose_names_do_not_tell_are_called_unknown(real_profile, kernels, said):
    profile = with_kernels(real_profile, *kernels)
    told = " ".join(" ".join(DEVICES.text(profile)).split())
    for where in (told, unescape(html_of(profile))):
        assert said in where
        assert ("do not say" in where) == ("do not say" in said)


def test_a_kernel_of_many_operations_is_in_the_list_once_with_their_number(real_profile):
    many = [("shared_kernel", 10)] * 12 + [(f"gemm{i}", 30) for i in range(9)]
    profile = with_kernels(real_profile, *many)
    (line,) = [line for line in DEVICES.text(profile) if "shared_kernel" in line]
    assert " ".join(line.split()) == "31 % 0.12 ms shared_kernel · aten::op0 · Forward (and 11 other callers)"
    assert sum("gemm" in line for line in DEVICES.text(profile)) == 7
    assert html_of(profile).count("shared_kernel") == 1
    assert "(and 11 other callers)" in html_of(profile)


def test_without_steps_nothing_is_said_of_a_step(real_profile):
    trace = GpuTrace()
    trace.phase("forward", 0, 500)
    trace.launch("aten::copy_", 10, PAGEABLE, 20, 120, stream=COPIES, bytes=65_536)
    trace.launch("aten::mm", 110, GEMM, 120, 250)
    trace.launch("c10d::allreduce_", 150, ALLREDUCE, 250, 400, stream=NCCL)
    profile = replace(real_profile, devices=devices_of(trace))
    told = " ".join(" ".join(DEVICES.text(profile)).split())
    assert "On the GPU (cuda:0): busy 76 % of the whole run (0.5 ms)" in told
    assert "Host to device, pageable memory: 0.1 ms in total in 1 copy" in told
    assert "2 kernels in total" in told
    assert "Communication between GPUs: 0.15 ms in total" in told
    html = html_of(profile)
    assert "Share of the run" in html
    assert "Copies in total" in html
    assert "step" not in told
    assert "step" not in html


def test_long_and_hostile_kernel_names_are_cut_and_escaped(real_profile):
    trace = GpuTrace()
    for _ in range(5):
        trace.phase("forward", 0, 900)
        trace.launch(EVIL, 10, EVIL + "x" * 5000, 100, 300)
        trace.end_step()
    profile = replace(real_profile, devices=devices_of(trace))
    assert all(len(line) <= 125 for line in DEVICES.text(profile))
    assert "<img" not in html_of(profile)
    assert "&lt;img" in html_of(profile)


def test_the_stamp_stands_below_the_figures_of_a_gpu(on_gpu):
    assert "Complete: every launch" in "\n".join(DEVICES.text(on_gpu))
    broken = replace(
        on_gpu, completeness=Completeness(False, ("3 of 20 launched kernels and copies are missing",))
    )
    for told in (" ".join(" ".join(DEVICES.text(broken)).split()), unescape(html_of(broken))):
        assert (
            "Incomplete: 3 of 20 launched kernels and copies are missing. This is the profiler's fault"
            in told
        )
        assert "Restart the kernel" in told


def test_a_gpu_of_which_nothing_was_recorded_has_a_title_and_the_reason(real_profile):
    unseen = replace(real_profile, completeness=Completeness(False, (NOTHING,)))
    title, first, *_ = DEVICES.text(unseen)
    assert title == "On the GPU"
    assert "Incomplete: nothing was recorded of the GPU, though the model is on it." in first
    assert NOTHING in html_of(unseen)


def test_a_profile_of_the_cpu_has_no_such_section(real_profile):
    assert list(DEVICES.text(real_profile)) == list(DEVICES.html(real_profile)) == []


def test_the_activity_prints_as_its_section(on_gpu):
    (activity,) = on_gpu.devices
    assert str(activity).splitlines() == list(DEVICES.text(on_gpu))[:-1]
