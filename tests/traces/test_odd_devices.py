"""Traces of devices and of versions of torch that are seen seldom: nothing is made up, and what cannot be read is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

import accel
from accel.traces.trace_profile import read_trace
from tests.profiling.gpu_trace import GEMM, training_on_gpu
from tests.traces.test_foreign_phases import times
from tests.traces.test_ranks import on_gpu
from tests.traces.writing import START_US, as_torch_writes, span, trace, training_events, write

ON_GPU = as_torch_writes(training_on_gpu().events)


def as_older_torch_wrote(events):
    """`EventList.export_chrome_trace`: a list alone, without categories, its processes named after what is in them."""
    return [{**event, "pid": "CPU functions", "args": {}, "cat": ""} for event in events]


@pytest.mark.parametrize("devices", [(0,), (0, 1)])
def test_kernels_of_older_versions_of_torch_are_no_operations_of_the_cpu(tmp_path, devices):
    operations = as_older_torch_wrote(training_events(6))
    kernels = [
        {
            "ph": "X", "name": GEMM, "pid": "CUDA functions", "tid": device, "args": {},
            "ts": START_US + 1000.0 * step + 200, "dur": 300.0,
        }
        for step in range(6)
        for device in devices
    ]  # fmt: skip
    alone = read_trace(write(tmp_path / "cpu.json", operations))
    report = read_trace(write(tmp_path / "gpu.json", [*operations, *kernels]))
    assert report.rows == alone.rows
    assert times(report) == times(alone) == {"backward": 350, "forward": 290, "data": 100, "optimizer": 80}
    assert [gpu.device for gpu in report.devices] == [f"cuda:{number}" for number in devices]
    for gpu in report.devices:
        (kernel,) = gpu.kernels_by_name
        assert (kernel.name, kernel.ms, kernel.calls) == (GEMM, pytest.approx(0.3), 1)
        assert gpu.busy_share == pytest.approx(0.3)


def test_a_gpus_categories_of_torch_1_8_are_known(tmp_path):
    old = {
        "cpu_op": "Operator", "user_annotation": "Annotation", "cuda_runtime": "Runtime", "gpu_memcpy": "Memcpy",
        "kernel": "Kernel",
    }  # fmt: skip
    events = [{**event, "cat": old[event["cat"]]} for event in ON_GPU]
    report, new = (
        read_trace(write(tmp_path / f"{number}.json", trace(e))) for number, e in enumerate((events, ON_GPU))
    )
    assert (report.rows, report.devices) == (new.rows, new.devices)


BATCH_NORM = "void at::native::batch_norm_backward_elemt_kernel<float, float, float, int>()"
CALLS = [
    span("cudaLaunchKernel", 1000.0 * step + 10, 5.0, cat="cuda_runtime", correlation=step + 1)
    for step in range(5)
]
KERNELS = [on_gpu(BATCH_NORM, 1000.0 * step + 20, 300.0, 7, step + 1) for step in range(5)]
RANGE = span("evaluation", 0.0, 4900.0, cat="user_annotation")


@pytest.mark.parametrize(
    "events",
    [[*CALLS, *KERNELS], KERNELS, [RANGE, *CALLS, *KERNELS]],
    ids=["with calls", "kernels alone", "within a range of the user's"],
)
def test_a_trace_of_the_gpu_alone_gets_no_phases(tmp_path, events):
    report = accel.open_trace(write(tmp_path / "gpu.json", trace(events)))
    assert times(report) == {}
    assert {row.phase for row in report.devices[0].kernels} == {
        "the start of the trace → the end of the trace"
    }
    assert report.devices[0].kernels_by_name[0].name == BATCH_NORM
    assert report.findings == ()
    assert "phases are unknown. Record ProfilerActivity.CPU too." in str(report)
    assert "Forward" not in str(report)


def test_of_a_gpu_without_steps_nothing_is_said_per_step(tmp_path):
    events = [
        span("aten::mm", 0.0, 500.0, external=1, sequence=1, forward=0),
        span("cudaLaunchKernel", 50.0, 5.0, cat="cuda_runtime", external=1, correlation=1),
        on_gpu(GEMM, 100.0, 250.0, 7, 1),
    ]
    report = accel.open_trace(write(tmp_path / "t.json", trace(events)))
    for said in (str(report), report._repr_mimebundle_()["text/html"]):
        assert "busy 50 % of the whole run (0.5 ms)" in said
        assert "each step" not in said
        assert "per step" not in said


@pytest.mark.parametrize(
    ("categories", "said"),
    [
        ([""] * 6, "6 events of categories that accel cannot read (events without a category)."),
        (["mtia_ccp_events"], "1 event of categories that accel cannot read (mtia_ccp_events)."),
        (
            ["npu_kernel"] * 3 + ["HCCL"] * 2,
            "5 events of categories that accel cannot read (npu_kernel, hccl).",
        ),
        (list("aaaaabbbbcccddef"), "16 events of categories that accel cannot read (a, b, c, d and 2 more)."),
    ],
    ids=["Ascend", "MTIA", "two", "six"],
)
def test_events_of_devices_that_accel_cannot_read_are_counted_and_change_nothing(tmp_path, categories, said):
    plain = accel.open_trace(write(tmp_path / "plain.json", trace(training_events(6))))
    odd = [span("MatMulV2", 100.0 * i, 50.0, cat=cat, pid=7, tid=3) for i, cat in enumerate(categories)]
    report = accel.open_trace(write(tmp_path / "odd.json", trace([*training_events(6), *odd])))
    assert [note for note in report.notes if note.startswith("Left out: ") and "categories" in note] == [
        f"Left out: {said}"
    ]
    assert (report.rows, report.phases, report.findings) == (plain.rows, plain.phases, plain.findings)
    assert report.completeness.is_complete


@pytest.mark.parametrize("category", ["user_annotation", "cpu_op", "Operator"])
def test_the_profilers_steps_are_steps_and_no_operations_whatever_their_category(tmp_path, category):
    marks = [span(f"ProfilerStep#{n + 5}", 1000.0 * n, 1000.0, cat=category) for n in range(4)]
    report = read_trace(write(tmp_path / "t.json", trace([*training_events(4), *marks])))
    assert times(report) == {"backward": 350, "forward": 290, "data": 100, "optimizer": 80}
    assert (report.steps, report.timing.warmup_steps) == (4, 0)
    assert not [row.op for row in report.rows if row.op.startswith("ProfilerStep")]


@pytest.mark.parametrize(
    ("calls", "device"),
    [
        ("cuda_driver", "cuda:0"),
        ("xpu_runtime", "xpu:0"),
        ("xpu_driver", "xpu:0"),
        ("mtia_runtime", "mtia:0"),
        ("privateuse1_runtime", "privateuse1:0"),
    ],
)
def test_a_device_is_named_after_its_runtime(tmp_path, calls, device):
    (cuda,) = read_trace(write(tmp_path / "cuda.json", trace(ON_GPU))).devices
    events = [{**event, "cat": calls} if event["cat"] == "cuda_runtime" else event for event in ON_GPU]
    report = read_trace(write(tmp_path / "other.json", trace(events)))
    assert report.devices == (replace(cuda, device=device),)
    assert f"On the GPU ({device})" in str(report)
