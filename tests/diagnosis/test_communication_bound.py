"""Collectives that nothing is computed beside are found, in the trace and as kernels of a GPU; hidden ones are not."""

from __future__ import annotations

from functools import cache

import pytest
import torch.distributed as dist

from accel.diagnosis.communication_bound import communication_bound
from accel.profiling.device_activity import DeviceActivity
from tests.diagnosis.making import by_hand, real
from tests.diagnosis.one_rank import real_in_a_group

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="this build of torch has no gloo")

BY_HAND = """
import torch.distributed as dist
for _ in range(14):
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    for parameter in model.parameters():
        for _ in range(100):
            dist.all_reduce(parameter.grad)
    optimizer.step()
"""


@cache
def faulty():
    return real_in_a_group(BY_HAND, "")


@cache
def sound():
    return real()


def test_collectives_after_backward_are_exposed():
    finding = communication_bound(faulty())
    assert finding.details["exposed_ms"] > 0.5 * finding.details["communication_ms"]
    assert finding.evidence[0].startswith("400 collectives")
    assert finding.prediction.low == 1


def device(overlap):
    return DeviceActivity(
        device="cuda:0", step_ms=10.0, busy_share=0.9, idle_share=0.1, launch_gaps_share=0.0, kernels=(), copies=(),
        streams=((7, 9.0),), kernels_per_step=100.0, median_kernel_us=20.0, tensor_core_share=0.0,
        communication_ms=4.0, communication_overlap=overlap,
    )  # fmt: skip


def on_gpu(overlap):
    return by_hand({"forward": 0.4, "backward": 0.6}, devices=(device(overlap),))


def test_kernels_of_a_gpu_count_for_what_ran_beside_them():
    assert communication_bound(on_gpu(0.5)).share == pytest.approx(0.2)
    assert communication_bound(on_gpu(1.0)) is None
