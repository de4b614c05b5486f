"""Ranks beside each other: the straggler, the phase it loses its time in, communication and its overlap."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import accel
from accel.errors import AccelError
from accel.profiling.intervals import Intervals
from accel.traces.rank_facts import without
from accel.traces.ranks_report import ON_GPU
from tests.traces.writing import H100, HEAD, span, trace, write

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
STEP = 1000.0


def rank_events(*, loading=100.0, computing=300.0, gpu=400.0, steps=6, wait_until=900.0, clock=0.0):
    """Per step of 1 ms: data, forward launching a kernel of `gpu` µs, then a collective that ends at `wait_until`."""
    events = []
    for number in range(steps):
        at, call = number * STEP + clock, number * 10 + 1
        launched = at + loading + 10
        events += [
            span("enumerate(DataLoader)#x.__next__", at, loading, cat="user_annotation"),
            span("aten::mm", launched, computing - 10, external=call, sequence=call, forward=0),
            span("cudaLaunchKernel", launched + 5, 5.0, cat="cuda_runtime", external=call, correlation=call),
            on_gpu("gemm", launched + 10, gpu, 7, call),
            span("autograd::engine::evaluate_function: MmBackward0", launched + computing, 50.0, sequence=call, forward=1),
            span("c10d::allreduce_", launched + computing + 5, 30.0, external=call + 1),
            span("cudaLaunchKernel", launched + computing + 6, 5.0, cat="cuda_runtime", external=call + 1, correlation=call + 1),
            on_gpu(NCCL, launched + 10 + gpu - 50, at + wait_until - (launched + gpu - 40), 20, call + 1),
            span("Optimizer.step#SGD.step", at + 930, 50.0, cat="user_annotation"),
        ]  # fmt: skip
    return events


def on_gpu(name, ts, dur, stream, correlation):
    return span(
        name, ts, dur, cat="kernel", pid=0, tid=stream, device=0, stream=stream, correlation=correlation, external=correlation
    )  # fmt: skip


def write_ranks(folder, *ranks, world_size=None, **head):
    for number, events in enumerate(ranks):
        distributed = {"backend": "nccl", "rank": number, "world_size": world_size or len(ranks)}
        about = {
            "distributedInfo": distributed,
            "deviceProperties": [H100],
            "host_name": f"node{number}",
            **head,
        }
        document = trace(events, **about)
        write(folder / f"trace.{number}.json.gz", document)
    return folder


def test_the_rank_that_loads_longer_is_the_straggler_though_all_steps_take_as_long(tmp_path):
    report = accel.open_trace(write_ranks(tmp_path, rank_events(), rank_events(loading=250.0), rank_events()))
    assert [row.step_ms for row in report.rows] == pytest.approx([1, 1, 1], rel=0.01)
    assert (report.straggler.rank, report.straggler.phase) == (1, "data")
    assert report.straggler.by_ms == pytest.approx(0.15, rel=0.05)
    assert report.straggler.share == pytest.approx(0.15, rel=0.05)
    assert "Rank 1 holds the others up" in str(report)
    assert "Waiting for data" in str(report)


def test_a_slow_gpu_is_told_apart_from_slow_code(tmp_path):
    report = accel.open_trace(write_ranks(tmp_path, rank_events(), rank_events(), rank_events(gpu=600.0)))
    assert (report.straggler.rank, report.straggler.phase) == (2, ON_GPU)
    assert report.straggler.by_ms == pytest.approx(0.2, rel=0.05)


@pytest.mark.parametrize(("second", "found"), [(240.0, False), (100.0, True)])
def test_of_a_single_step_a_rank_has_to_stand_out_from_each_other_rank(tmp_path, second, found):
    loading = (250.0, second, 100.0, 100.0)
    ranks = (rank_events(loading=each, steps=1) for each in loading)
    report = accel.open_trace(write_ranks(tmp_path, *ranks))
    assert [row.rank for row in report.rows] == [0, 1, 2, 3]
    assert (report.straggler is not None) == found


def test_equal_ranks_have_no_straggler(tmp_path):
    report = accel.open_trace(write_ranks(tmp_path, rank_events(), rank_events(loading=103.0)))
    assert report.straggler is None
    assert "No rank stands out" in str(report)


@pytest.mark.parametrize(
    "kernel",
    [
        NCCL,
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, int)",
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 8>(c10::BFloat16*, long)",
    ],
    ids=["NCCL", "vLLM", "symmetric memory"],
)
def test_communication_and_its_overlap_with_compute(tmp_path, kernel):
    events = [{**event, "name": event["name"].replace(NCCL, kernel)} for event in rank_events()]
    report = accel.open_trace(write_ranks(tmp_path, events, events))
    first = report.rows[0]
    # The collective runs from 470 to 900 µs of each step; until 520 the matrix product runs beside it.
    assert first.communication_ms == pytest.approx(0.43, rel=0.02)
    assert first.overlap_share == pytest.approx(50 / 430, rel=0.02)
    assert first.exposed_ms == pytest.approx(0.38, rel=0.02)
    assert first.own_ms == pytest.approx(1 - 0.38, rel=0.02)


def test_clocks_that_differ_are_put_right_by_the_ends_of_collectives(tmp_path):
    ranks = rank_events(), rank_events(loading=250.0, clock=70_000.0)
    report = accel.open_trace(write_ranks(tmp_path, *ranks))
    assert [row.late_ms for row in report.rows] == pytest.approx([0, 0.15], abs=0.01)
    (call,) = report.calls
    assert (call.last_rank, call.last_share) == (1, 1)
    assert call.wait_ms == pytest.approx(0.15, abs=0.01)
    assert any("up to 70 ms apart" in note for note in report.notes)


def test_collectives_that_not_all_have_are_named_and_not_compared(tmp_path):
    report = accel.open_trace(write_ranks(tmp_path, rank_events(), rank_events(steps=7)))
    assert report.calls == ()
    assert any("Not on all ranks equally often" in note for note in report.notes)
    assert {row.late_ms for row in report.rows} == {None}


def test_missing_ranks_are_named(tmp_path):
    write_ranks(tmp_path, rank_events(), rank_events(), world_size=4)
    report = accel.open_trace(tmp_path)
    assert (report.missing, report.world_size) == ((2, 3), 4)
    assert "2 of 4 ranks" in str(report)
    assert "Ranks without a trace: 2, 3." in str(report)


def test_ranks_are_known_by_their_files_names_where_the_trace_does_not_tell(tmp_path):
    for name in ("rank3.json", "rank_1.json", "other.json"):
        write(tmp_path / name, {**HEAD, "traceEvents": rank_events()})
    report = accel.open_trace(tmp_path)
    assert [row.rank for row in report.rows] == [0, 1, 3]
    assert any("other.json gives no rank" in note for note in report.notes)


def test_files_that_are_no_traces_are_left_out_and_named(tmp_path):
    write_ranks(tmp_path, rank_events(), rank_events())
    write(tmp_path / "config.json", {"lr": 0.1})
    report = accel.open_trace(tmp_path)
    assert len(report.rows) == 2
    assert any("config.json: it has no list of trace events" in note for note in report.notes)


def test_a_folder_without_any_trace_is_refused(tmp_path):
    write(tmp_path / "config.json", {"lr": 0.1})
    write(tmp_path / "more.json", {"lr": 0.1})
    with pytest.raises(AccelError, match="no list of trace events"):
        accel.open_trace(tmp_path)


def test_damage_of_one_rank_is_told_with_its_number(tmp_path):
    write_ranks(tmp_path, rank_events(), [*rank_events(), span("aten::odd", 5, -1.0)])
    assert any(
        note.startswith("Rank 1: 1 event with a duration") for note in accel.open_trace(tmp_path).notes
    )


def test_the_report_is_a_table_as_text_html_json_and_a_data_frame(tmp_path):
    write_ranks(tmp_path, rank_events(), rank_events(loading=250.0), host_name="<b>node</b>")
    report = accel.open_trace(tmp_path)
    html = report._repr_mimebundle_()["text/html"]
    assert "<table" in html
    assert "<b>node" not in html
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["straggler"]["rank"] == 1
    assert list(report.to_dataframe()["rank"]) == [0, 1]
    assert max(map(len, str(report).splitlines())) <= 130
    assert "aten::mm" in str(report.profiles[0])


@pytest.mark.parametrize("seed", range(20))
def test_what_one_covers_and_the_other_does_not(seed):
    random = np.random.default_rng(seed)

    def intervals():
        edges = np.unique(random.integers(0, 60, 10))
        edges = edges[: len(edges) // 2 * 2]
        return Intervals(edges[::2], edges[1::2])

    def moments(covered):
        return {t for a, b in zip(covered.begins, covered.ends, strict=True) for t in range(a, b)}

    one, other = intervals(), intervals()
    assert moments(without(one, other)) == moments(one) - moments(other)


WORKER = """
import os, sys, time, torch, torch.distributed as dist
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
rank, folder = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
model = nn.parallel.DistributedDataParallel(nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def done(profiler): profiler.export_chrome_trace(f"{folder}/worker_{rank}.pt.trace.json")
with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=2, active=5), on_trace_ready=done) as profiler:
    for _ in range(7):
        inputs = torch.randn(32, 64)
        optimizer.zero_grad()
        outputs = model(inputs)
        if rank == 1:
            slow = torch.randn(400, 400)
            for _ in range(100):  # far longer than a busy machine lets the other rank wait
                slow = (slow @ slow).clamp(-1, 1)
        outputs.sum().backward()
        optimizer.step()
        time.sleep(0.5)  # gloo's own thread ends its record of the call a little after the call itself
        profiler.step()
dist.destroy_process_group()
os._exit(0)  # once in some hundred runs torch's own threads end the interpreter's exit with std::terminate
"""


def test_two_real_processes_under_gloo(tmp_path):
    torch_distributed = pytest.importorskip("torch.distributed")
    if not (torch_distributed.is_available() and torch_distributed.is_gloo_available()):
        pytest.skip("this torch is built without gloo")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(rank), str(tmp_path)], env=environment, stderr=subprocess.PIPE)
        for rank in range(2)
    ]  # fmt: skip
    for worker in workers:
        _, said = worker.communicate(timeout=120)
        assert worker.returncode == 0, said.decode()
    report = accel.open_trace(Path(tmp_path))
    assert [row.rank for row in report.rows] == [0, 1]
    assert (report.world_size, report.missing) == (2, ())
    assert report.straggler.rank == 1
    assert report.straggler.phase == "forward"
    assert report.rows[0].exposed_ms > report.rows[1].exposed_ms
    assert any(call.name == "gloo:all_reduce" and call.last_rank == 1 for call in report.calls)


def test_traces_of_two_runs_are_not_called_ranks_that_hold_each_other_up(tmp_path):
    for run in ("before", "after"):
        (tmp_path / run).mkdir()
        write_ranks(tmp_path / run, rank_events(), rank_events(loading=250.0))
    report = accel.open_trace(tmp_path)
    assert report.straggler is None
    assert "4 traces: 1 ms to 1 ms a step" in str(report)
    assert "not of one run (2 of them say that they are rank 0)" in str(report)
    assert not report.missing


def test_runs_of_different_sizes_are_no_ranks_of_one_run(tmp_path):
    write_ranks(tmp_path, rank_events(), world_size=2)
    head = {"distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 4}}
    write(tmp_path / "other.json", trace(rank_events(loading=250.0), **head))
    report = accel.open_trace(tmp_path)
    assert (report.straggler, report.world_size) == (None, None)
    assert "they tell of 2 and 4 ranks" in report.verdict


def test_what_communicates_nothing_cannot_be_held_up(tmp_path):
    for number, loading in enumerate((100.0, 250.0)):
        alone = [event for event in rank_events(loading=loading) if event["name"] != NCCL]
        write(tmp_path / f"rank{number}.json", trace(alone))
    report = accel.open_trace(tmp_path)
    assert report.straggler is None
    assert "no rank can hold another up" in report.verdict
