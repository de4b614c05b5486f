"""Peaks of a real GPU: rates by dtype, copies by kind of memory, links. Skipped, with the reason, where there is none."""

from __future__ import annotations

import pytest
import torch

from accel.machine.peaks import timing
from accel.machine.peaks.all_reducing import measure_all_reduces
from accel.machine.peaks.measuring import measure_links, measure_peaks

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]


@pytest.fixture(scope="module")
def measured():
    return measure_peaks()


def test_measuring_leaves_the_users_gpu_memory_alone(monkeypatch):
    monkeypatch.setattr(timing, "BUDGET_S", 0.05)
    before = torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved()
    measure_peaks()
    assert (torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved()) == before


def test_a_gpu_multiplies_faster_with_tensor_cores(measured):
    gpu = measured.of("cuda:0")
    assert gpu.flop_rate("bfloat16") > gpu.flop_rate("float32")


def test_eight_bit_floats_have_a_rate_from_ada_on_and_a_reason_before(measured):
    gpu = measured.of("cuda:0")
    if torch.cuda.get_device_capability() >= (8, 9):
        assert dict(gpu.flops_per_s)["float8_e4m3fn"] > gpu.flop_rate("bfloat16")
    else:
        assert "compute capability 8.9" in dict(gpu.not_measured)["float8_e4m3fn"]


def test_pinned_copies_are_no_slower_than_pageable_ones_and_slower_than_the_gpus_memory(measured):
    for source, target in (("cpu", "cuda:0"), ("cuda:0", "cpu")):
        pinned = measured.copies.rate(source, target, pinned=True)
        assert 0.9 * measured.copies.rate(source, target) < pinned < measured.of("cuda:0").bytes_per_s


@pytest.mark.skipif(torch.cuda.device_count() != 1, reason="not exactly one CUDA device on this machine")
def test_one_gpu_has_none_to_reduce_with():
    assert "nccl: one GPU has none to reduce with." in measure_all_reduces(sizes_bytes=(1 << 20,)).notes


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two CUDA devices on this machine")
def test_every_pair_of_gpus_has_a_rate_and_a_route_and_nccl_has_times():
    copies, all_reduces = measure_links()
    assert len(copies.rows) == torch.cuda.device_count() * (torch.cuda.device_count() - 1)
    assert {row.route for row in copies.rows} <= {"peer access", "through the host"}
    assert all_reduces.seconds(1 << 20, 2, "cuda:0") > 0
