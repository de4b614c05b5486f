"""Columns from a file: exact times, links between CPU and GPU, threads of forward and backward."""

from __future__ import annotations

import random

import numpy as np
import pytest

from accel.profiling.nesting import nesting_order, overlaps, parents
from accel.traces.damage import Damage
from accel.traces.event_table import EventTable
from accel.traces.trace_columns import cut_at_parents, nanoseconds, read_trace_columns
from accel.traces.trace_event import lenient_event
from accel.traces.trace_profile import read_trace
from tests.traces.writing import START_US, span, trace, training_events, write


def columns_of(*events, damage=None):
    damage = damage or Damage()
    table = EventTable(damage)
    table.add([lenient_event(event) for event in events])
    return read_trace_columns(table.arrays(), damage)


def row(columns, name):
    (found,) = [i for i in range(len(columns)) if columns.names[columns.name[i]] == name]
    return found


def test_times_are_exact_to_the_nanosecond():
    rng = random.Random(0)
    whole = [rng.randrange(10**15, 8 * 10**15) for _ in range(2000)]
    assert nanoseconds(np.array([float(f"{ns // 1000}.{ns % 1000:03}") for ns in whole])).tolist() == whole


def test_a_kernel_is_linked_by_external_id_and_without_one_by_its_call():
    columns = columns_of(
        span("aten::mm", 0, 50.0, external=3),
        span("aten::relu", 60, 30.0, external=4),
        span("cudaLaunchKernel", 10, 5.0, cat="cuda_runtime", external=3, correlation=70, tid=9999),
        span("cuLaunchKernel", 65, 5.0, cat="cuda_driver", correlation=71),
        span("gemm", 20, 90.0, cat="kernel", tid=7, external=3, correlation=70, device=0, stream=7),
        span("fused", 120, 20.0, cat="kernel", tid=7, correlation=71, device=1, stream=7),
        span("stray", 150, 20.0, cat="kernel", tid=13, correlation=99),
    )
    assert columns.launcher[row(columns, "gemm")] == row(columns, "aten::mm")
    assert columns.launcher[row(columns, "fused")] == row(columns, "aten::relu")
    assert columns.launcher[row(columns, "stray")] == -1
    # The call's own thread id is the driver's; its link tells whose it was.
    assert columns.parent[row(columns, "cudaLaunchKernel")] == row(columns, "aten::mm")
    assert columns.device[
        [row(columns, name) for name in ("gemm", "fused", "stray", "aten::mm")]
    ].tolist() == [0, 1, 0, -1]
    assert columns.stream[row(columns, "stray")] == 13


def test_backward_finds_its_forward_among_threads():
    events = [
        *(span("aten::mm", 10.0 * i, 5.0, tid=501, sequence=i, forward=0) for i in range(5)),
        *(span("aten::mm", 10.0 * i, 5.0, tid=502, sequence=100 + i, forward=0) for i in range(5)),
        *(span("autograd::engine::evaluate_function: A", 100.0 + i, 0.5, tid=601, sequence=i, forward=1) for i in range(5)),
        *(span("autograd::engine::evaluate_function: B", 200.0 + i, 0.5, tid=601, sequence=100 + i, forward=2) for i in range(5)),
    ]  # fmt: skip
    columns = columns_of(*events)
    of_name = {
        name: set(columns.forward_thread[columns.name == i].tolist()) for i, name in enumerate(columns.names)
    }
    assert of_name["autograd::engine::evaluate_function: A"] == {501}
    assert of_name["autograd::engine::evaluate_function: B"] == {502}


def test_a_clock_since_1970_in_floats_neither_loses_nor_cuts_anything(tmp_path):
    """torch 2.1 and 2.2 wrote µs since 1970: a float holds a quarter of one."""
    shifted = [
        {**event, "ts": event["ts"] - START_US + 1_700_000_000_000_000.1} for event in training_events(6)
    ]
    exact = read_trace(write(tmp_path / "exact.json", trace(training_events(6))))
    coarse = read_trace(write(tmp_path / "coarse.json", trace(shifted)))
    assert coarse.damage == ()
    assert {(r.phase, r.op) for r in coarse.rows} == {(r.phase, r.op) for r in exact.rows}
    times = {(r.phase, r.op): r.self_ms for r in exact.rows}
    assert all(r.self_ms == pytest.approx(times[r.phase, r.op], abs=2e-3) for r in coarse.rows)


@pytest.mark.parametrize("seed", range(40))
def test_after_the_repair_everything_nests_whatever_the_overlaps(seed):
    rng = np.random.default_rng(seed)
    thread, start, duration = rng.integers(0, 2, 40), rng.integers(0, 9000, 40), rng.integers(0, 6000, 40)
    start, duration, _ = cut_at_parents(nesting_order(thread, start, duration), start, duration, thread)
    assert (duration >= 0).all()
    parent = parents(nesting_order(thread, start, duration), start, duration, thread)
    assert not overlaps(parent, start, duration, thread).any()


def test_neighbours_that_overlap_by_a_tick_stay_neighbours():
    thread, start, duration = np.array([1, 1]), np.array([0, 99_500]), np.array([100_000, 50_000])
    start, duration, cut = cut_at_parents(np.array([0, 1]), start, duration, thread)
    assert (start.tolist(), duration.tolist(), cut) == ([0, 100_000], [100_000, 49_500], 0)


@pytest.mark.parametrize("piece_bytes", [64, 1000, 1 << 19])
def test_streamed_in_small_pieces_the_report_is_the_same(tmp_path, piece_bytes):
    path = write(tmp_path / "trace.json.gz", trace(training_events(8)))
    assert read_trace(path, piece_bytes=piece_bytes) == read_trace(path, piece_bytes=1 << 30)
