"""Copies that a GPU waits for are found, and so are conversions in every step; overlapped copies are not."""

from __future__ import annotations

from functools import cache

import pytest
from torch.utils.data import DataLoader

from accel.diagnosis.copy_bound import copy_bound
from accel.machine.peaks import Copies, CopyPeak, Peaks
from accel.profiling.device_activity import CopyRow, DeviceActivity
from tests.diagnosis.making import TRAIN, by_hand, real

CONVERTING = """
for _ in range(14):
    x32 = x.to(torch.float32)
    optimizer.zero_grad()
    criterion(model(x32), y).backward()
    optimizer.step()
"""
LARGE = "x, y = torch.randn(2048, 16, dtype=torch.float64), torch.randint(0, 4, (2048,))"


def gpu(ms, *, idle=0.5, memory="pageable", copied=(2e6, 2.0)):
    copies = (CopyRow("host to device", memory, ms, *copied),)
    return DeviceActivity("cuda:0", 10.0, 1 - idle, idle, 0.0, (), copies, (), 100.0, 30.0, 0.0)


@cache
def faulty():
    return by_hand(
        {"copy": 0.02, "forward": 0.98}, devices=(gpu(2.0),), source=TRAIN.replace("(x)", "(x.to('cuda'))")
    )


@cache
def sound():
    return real()


def test_copies_that_the_gpu_waits_for_are_found_with_bytes_and_line():
    finding = copy_bound(faulty())
    assert finding.share == 0.2
    assert "1.91 MiB" in finding.evidence[1]
    assert "pin_memory=True" in finding.remedy
    assert finding.line == 4


def test_pinning_is_suggested_where_a_loader_gives_the_batches():
    assert copy_bound(faulty()).suggests == ()  # a batch that the cell makes itself
    evidence = by_hand({"forward": 1.0}, devices=(gpu(2.0),))
    evidence.objects.loaders["loader"] = DataLoader([0, 1])
    assert copy_bound(evidence).suggests == ("pin_memory",)
    pinned = by_hand({"forward": 1.0}, devices=(gpu(2.0, memory="pinned"),))
    pinned.objects.loaders["loader"] = DataLoader([0, 1])
    assert copy_bound(pinned).suggests == ()


@pytest.mark.parametrize("memory", ["pageable", "pinned"])
@pytest.mark.parametrize(
    ("copied", "are_tiny"),
    [((1600.0, 200.0), True), ((6400.0, 200.0), True), ((8.0, 1.0), True), ((2e8, 200.0), False)],
)
def test_many_tiny_copies_are_to_be_one_and_not_to_be_pinned(copied, are_tiny, memory):
    evidence = by_hand({"forward": 1.0}, devices=(gpu(2.0, memory=memory, copied=copied),))
    evidence.objects.loaders["loader"] = DataLoader([0, 1])
    finding = copy_bound(evidence)
    assert finding.share == 0.2
    assert ("Pack the small tensors into one tensor" in finding.remedy) == are_tiny
    assert finding.suggests == (() if are_tiny or memory == "pinned" else ("pin_memory",))
    assert ("pin_memory" in finding.remedy) == bool(finding.suggests)
    assert (
        finding.prediction.ratio == pytest.approx(1 / 0.9)
    ) == are_tiny  # half of the time, whatever the memory


def test_copies_beside_kernels_cost_nothing():
    assert copy_bound(by_hand({"forward": 1.0}, devices=(gpu(2.0, idle=0.01),))) is None


def test_a_conversion_in_every_step_is_found_on_the_cpu():
    share = (evidence := real(CONVERTING, LARGE)).share("copy")
    assert 0 < share < 1
    finding = copy_bound(by_hand({"copy": 0.1, "forward": 0.9}, source=evidence.workload.source))
    assert finding.title.startswith("Converting batches: 10 %")
    assert finding.line == 3
    assert "once" in finding.remedy


def test_pinned_copies_are_not_called_pageable_nor_told_to_be_pinned():
    finding = copy_bound(by_hand({"forward": 1.0}, devices=(gpu(2.0, memory="pinned"),)))
    assert "from pinned memory" in finding.what
    assert "pin_memory" not in finding.remedy
    assert finding.prediction.ratio < copy_bound(faulty()).prediction.ratio


def test_where_copies_were_measured_the_prediction_is_for_this_machine():
    def finding(pinned_rate, memory="pageable"):
        rows = (
            CopyPeak("cpu", "cuda:0", pinned_rate, 8.0, "pinned"),
            CopyPeak("cpu", "cuda:0", 1e9, 8.0, "pageable"),
        )
        peaks = Peaks((), "", "", 0.0, copies=Copies(rows))
        return copy_bound(by_hand({"forward": 1.0}, devices=(gpu(2.0, memory=memory),), peaks=peaks))

    without = copy_bound(by_hand({"forward": 1.0}, devices=(gpu(2.0),)))
    fast, as_slow = finding(1e11), finding(1e9)  # 2 MB a step now take 2 ms: 1 GB/s
    assert as_slow.prediction.ratio == 1.0  # pinned memory alone gains nothing here
    assert as_slow.prediction.ratio < without.prediction.ratio < fast.prediction.ratio
    assert any(
        "100 GB/s from pinned memory and 1 GB/s from pageable memory" in line for line in fast.evidence
    )
    assert not any("measured on this machine" in line for line in without.evidence)
    already = finding(1e11, "pinned")
    assert already.prediction.ratio == finding(1e9, "pinned").prediction.ratio  # what is left is overlap
