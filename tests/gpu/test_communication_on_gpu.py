"""Moments of a GPU's stream on the machine's clock, and buckets of gradients that GPUs exchange."""

from __future__ import annotations

import time

import pytest
import torch

from accel.distributed.cells.run_options import RunOptions
from accel.distributed.ranks.device_clocks import CpuClock, CudaClock, clock_of
from accel.workbench import Workbench
from accel.workbench.ddp_options import DdpOptions

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]

CELL = """
for epoch in range(4):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
"""


def test_a_streams_moments_are_in_order_and_on_the_machines_clock() -> None:
    clock = clock_of(torch.zeros(1, device="cuda"))
    assert isinstance(clock, CudaClock)
    assert isinstance(clock_of(torch.zeros(1)), CpuClock)
    matrix = torch.randn(2048, 2048, device="cuda")
    before, first = time.perf_counter(), clock.mark()
    for _ in range(20):
        matrix @ matrix
    last = clock.mark()
    clock.settle()
    after = time.perf_counter()
    slack = 0.005  # of holding the two clocks against each other
    assert before - slack < clock.seconds(first) < clock.seconds(last) < after + slack


def test_buckets_that_two_gpus_exchange_are_ready_sent_and_there_in_order() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("there are not 2 GPUs")
    model = torch.nn.Sequential(
        *(torch.nn.Linear(1024, 1024) for _ in range(6)), torch.nn.Linear(1024, 2)
    ).cuda()
    data = torch.utils.data.TensorDataset(torch.randn(64, 1024), torch.randint(2, (64,)))
    names = {
        "torch": torch, "model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.01),
        "loader": torch.utils.data.DataLoader(data, batch_size=4),
    }  # fmt: skip
    workbench = Workbench(names, spare_workers=0)
    try:
        run = RunOptions(communication=True, bucket_mb=4.0)
        report = workbench.ranks.run(CELL, DdpOptions(n=2, run=run)).communication
    finally:
        workbench.close()
    assert report.steps == 10
    assert len(report.buckets) > 2
    assert 0 <= report.overlap <= 1
    for rank in report.ranks:
        for each in (each for step in rank.steps for each in step.passes):
            assert all(b.ready_s <= b.began_s <= b.ended_s for b in each.buckets)
