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
from tests.profiling.gpu_trace import ALLREDUCE, NCCL, PINNED, GpuTrace, training_on_gpu

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
    assert "On the GPU (cuda:0): busy 47 % of each step of 1 ms" in told
    assert "Idle 53 %, 43 % because the CPU launched its work late" in told
    assert "Waiting for data 10 %" in told
    assert "Host to device, pageable memory: 50 µs a step in 1 copy, 64 KiB at 1.31 GB/s" in told
    assert "3 kernels a step, median 0.2 ms; 95 % of kernel time on tensor cores" in told
    assert "aten::mm · Forward" in told


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
    assert "Host to device, pinned memory: 0.1 ms a step in 1 copy\n" in told
    assert "Communication (NCCL): 0.4 ms a step, 0.0 % of it while other kernels ran" in told
    assert "Communication (NCCL)" in html_of(profile)


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
