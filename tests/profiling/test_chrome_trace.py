"""The trace file: what a viewer needs, nothing lost, and a refusal that says what to do."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest

from accel.errors import AccelError
from accel.profiling.kineto_columns import read_columns
from accel.profiling.profiled_events import read_events
from accel.workload.user_code import CodeLine
from tests.profiling.recorded_event import RecordedEvent


def written(profile, path):
    profile.to_chrome_trace(path)
    return json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())


@pytest.mark.parametrize("name", ["step.json", "step.json.gz"])
def test_every_event_is_written_with_its_phase_module_and_times(real_profile, tmp_path, name):
    told = written(real_profile, tmp_path / name)
    columns, found = real_profile.events.columns, real_profile.events.found
    slices = [event for event in told["traceEvents"] if event["ph"] == "X"]
    assert [one["name"] for one in slices] == [columns.names[i] for i in columns.name]
    assert [one["args"]["phase"] for one in slices] == found.phase.tolist()
    assert [one["args"]["module"] for one in slices] == found.module.tolist()
    assert [one["dur"] for one in slices] == pytest.approx((columns.duration_ns / 1e3).tolist())
    assert min(one["ts"] for one in slices) == 0
    assert {one["cat"] for one in slices} >= {"cpu_op", "user_annotation"}


def test_threads_have_names(real_profile, tmp_path):
    told = written(real_profile, tmp_path / "step.json")["traceEvents"]
    names = {one["tid"]: one["args"]["name"] for one in told if one["name"] == "thread_name"}
    assert names[real_profile.events.found.own_thread] == "Training thread"
    assert {one["tid"] for one in told if one["ph"] == "X"} <= set(names)


def test_a_kernel_is_on_its_stream_and_linked_to_the_operation_that_launched_it(real_profile, tmp_path):
    traced = [
        RecordedEvent("aten::mm", 0, 5_000_000, number=3),
        RecordedEvent("cudaLaunchKernel", 1_000_000, 1000, number=91, linked=3),
        RecordedEvent("gemm", 2_000_000, 4_000_000, number=91, linked=3, on_device=1, stream=20),
        RecordedEvent(
            "Memcpy HtoD (Pinned -> Device)", 500_000, 9000, on_device=1, kind="gpu_memcpy", bytes=4096
        ),
    ]
    gpu = replace(real_profile, events=read_events(read_columns(traced)))
    by_name = {
        one["name"]: one for one in written(gpu, tmp_path / "gpu.json")["traceEvents"] if one["ph"] == "X"
    }
    op, launch, kernel = by_name["aten::mm"], by_name["cudaLaunchKernel"], by_name["gemm"]
    assert kernel["args"]["External id"] == launch["args"]["External id"] == op["args"]["External id"]
    assert kernel["args"]["correlation"] == launch["args"]["correlation"] == 91
    assert (kernel["pid"], kernel["tid"], kernel["args"]["stream"]) == (1, 20, 20)
    assert by_name["Memcpy HtoD (Pinned -> Device)"]["args"]["bytes"] == 4096


def test_with_stacks_an_operation_tells_its_line(real_profile, tmp_path):
    events = read_events(
        read_columns([RecordedEvent("aten::mm", 0, 1000), RecordedEvent("aten::add", 2000, 1000)])
    )
    lined = replace(events, line=np.array([0, -1]), lines=(CodeLine(__file__, 1),))
    told = written(replace(real_profile, events=lined), tmp_path / "lines.json")["traceEvents"]
    by_name = {one["name"]: one["args"] for one in told if one["ph"] == "X"}
    assert by_name["aten::mm"]["line"].startswith("test_chrome_trace.py, line 1: ")
    assert "line" not in by_name["aten::add"]


def test_names_with_quotes_and_other_scripts_stay_what_they_are(real_profile, tmp_path):
    name = 'say "hi" </script> 層'
    events = read_events(read_columns([RecordedEvent(name, 0, 1000)]))
    told = written(replace(real_profile, events=events), tmp_path / "odd.json")
    assert [one["name"] for one in told["traceEvents"] if one["ph"] == "X"] == [name]


@pytest.mark.parametrize(
    ("path", "because"), [("step.txt", "ending"), ("step", "ending"), ("nowhere/step.json", "no folder")]
)
def test_a_path_that_will_not_do_is_refused_with_the_remedy(real_profile, tmp_path, path, because):
    with pytest.raises(AccelError, match=because):
        real_profile.to_chrome_trace(tmp_path / path)
    assert list(tmp_path.iterdir()) == []


def test_a_profile_without_events_says_so(real_profile, tmp_path):
    with pytest.raises(AccelError, match="holds no events"):
        replace(real_profile, events=None).to_chrome_trace(tmp_path / "step.json")


def test_read_again_it_gives_the_same_report(real_profile, tmp_path):
    from accel.traces.opening import open_trace

    again = open_trace(real_profile.to_chrome_trace(tmp_path / "step.json.gz"))
    assert not again.damage
    assert again.profiled_steps == real_profile.profiled_steps
    ours = {(row.phase, row.module, row.op): row for row in real_profile.rows}
    theirs = {(row.phase, row.module, row.op): row for row in again.rows}
    assert set(theirs) == set(ours)
    for key, row in ours.items():
        assert theirs[key].calls == pytest.approx(row.calls)
        assert theirs[key].self_ms == pytest.approx(row.self_ms, abs=2e-4)
