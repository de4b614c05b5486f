"""The load of a real GPU: what the driver tells is told, and work shows."""

from __future__ import annotations

import shutil
import subprocess

import pytest
import torch

import accel

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def test_work_on_the_gpu_shows_in_the_summary():
    matrix = torch.randn(4096, 4096, device="cuda")
    torch.cuda.synchronize()
    with accel.monitor(every=0.2) as load:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        elapsed_ms = 0.0
        while elapsed_ms < 3000:
            for _ in range(20):
                matrix = matrix @ matrix / 64
            end.record()
            end.synchronize()
            elapsed_ms = begin.elapsed_time(end)
    summary = load.summary()
    busiest = max(summary[f"gpu{index}_busy"].peak for index in range(len(summary.gpu_names)))
    assert busiest > 0.5
    assert load.sampler.failure is None
    print(load)


@pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="needs nvidia-smi")
def test_memory_and_power_agree_with_nvidia_smi():
    asked = "--query-gpu=memory.total,power.limit"
    shown = subprocess.check_output(["nvidia-smi", asked, "--format=csv,noheader,nounits"], text=True)
    with accel.monitor() as load:
        gpus = load.snapshot().sample.gpus
    for gpu, line in zip(gpus, shown.splitlines(), strict=True):
        memory_mib, limit_w = line.split(",")
        assert gpu.memory_bytes == pytest.approx(float(memory_mib) * 2**20, rel=0.02)
        if gpu.power_limit_w is not None:
            assert gpu.power_limit_w == pytest.approx(float(limit_w), rel=0.02)


def test_bytes_that_are_copied_show_as_pcie_traffic():
    host = torch.empty(1 << 28, dtype=torch.uint8, pin_memory=True)
    device = torch.empty_like(host, device="cuda")
    with accel.monitor(every=0.2) as load:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        copied, elapsed_ms = 0, 0.0
        while elapsed_ms < 3000:
            device.copy_(host, non_blocking=True)
            copied += host.numel()
            end.record()
            end.synchronize()
            elapsed_ms = begin.elapsed_time(end)
    found = [
        load.summary().get(f"gpu{index}_pcie_in_bytes_s") for index in range(len(load.summary().gpu_names))
    ]
    told = [each.peak for each in found if each is not None]
    if not told:
        pytest.skip("this GPU or driver tells no PCIe traffic")
    rate = copied / (elapsed_ms / 1000)
    assert 0.3 * rate < max(told) < 3 * rate
