"""float32 products where bfloat16 hardware idles are found; without such hardware, or under autocast, they are not."""

from __future__ import annotations

import dataclasses
from functools import cache

import pytest
import torch
from torch import nn

from accel.diagnosis import Evidence
from accel.diagnosis.low_precision_idle import low_precision_idle
from accel.machine import read_machine
from accel.machine.gpus import Gpu
from accel.machine.peaks import DevicePeaks, Peaks
from accel.profiling.device_activity import DeviceActivity, KernelRow
from accel.profiling.op_cost import OpCost
from tests.diagnosis.making import TRAIN, by_hand, notebook, real, row

CNN = """
model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.Flatten(), nn.Linear(32 * 28 * 28, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(2, 3, 32, 32), torch.randint(0, 4, (2,))
"""
ROWS = (
    row("aten::mkldnn_convolution", "forward", 0.3, calls=2.0),
    row("aten::convolution_backward", "backward", 0.4, calls=2.0),
    row("aten::addmm", "forward", 0.1, calls=1.0),
)


@cache
def profiled():
    return real(setup=CNN)


def on(isa, gpus=(), evidence=None):
    given = evidence or profiled()
    machine = dataclasses.replace(read_machine(), isa=isa, gpus=gpus)
    evidence = Evidence(given.profile, given.workload, machine)
    evidence.objects.models.update(given.objects.models)
    return evidence


@cache
def faulty():
    return on(("avx2", "avx512_bf16"))


@cache
def sound():
    return on(("avx2",))


def test_a_float32_cnn_is_found_and_both_changes_are_suggested_together():
    finding = low_precision_idle(faulty())
    assert finding.suggests == ("channels_last+autocast",)
    assert 1 < finding.prediction.low < finding.prediction.ratio < finding.prediction.high < 4.2
    assert "avx512_bf16" in finding.evidence[1]


def test_a_cell_with_autocast_of_its_own_is_not():
    cell = TRAIN.replace("criterion(model(x), y)", "criterion(run(x), y)")
    setup = (
        CNN + "def run(x):\n    with torch.autocast('cpu', dtype=torch.bfloat16):\n        return model(x)\n"
    )
    assert low_precision_idle(on(("avx512_bf16",), evidence=real(cell, setup))) is None


@pytest.mark.parametrize(("us", "is_found"), [(30.0, False), (70.0, True)])
def test_products_that_are_shorter_than_a_cast_are_not(us, is_found):
    products = row("aten::addmm", "forward", 0.5, calls=5_000.0 / us)  # half of a step of 10 ms
    evidence = by_hand({"forward": 1.0}, (products,))
    evidence.objects.models["model"] = nn.Linear(4, 4)
    assert (low_precision_idle(on(("avx512_bf16",), evidence=evidence)) is not None) == is_found


def test_kernels_without_tensor_cores_are_found_on_a_gpu_that_has_them():
    slow = KernelRow(
        "ampere_sgemm_128x64_tn", "aten::addmm", "forward", "0", 6.0, 0.6, 4.0, uses_tensor_cores=False
    )
    fast = dataclasses.replace(slow, name="ampere_bf16_s16816gemm", uses_tensor_cores=True)
    unknown = dataclasses.replace(slow, name="triton_tem_fused_conv_0", uses_tensor_cores=None)
    gpus = (Gpu(0, "A100", 2**30, (8, 0)),)
    machine = dataclasses.replace(read_machine(), gpus=gpus)

    def running(kernel):
        device = DeviceActivity("cuda:0", 10.0, 0.9, 0.1, 0.0, (kernel,), (), (), 9.0, 30.0, 0.0)
        evidence = by_hand({"forward": 1.0}, devices=(device,), machine=machine)
        evidence.objects.models["model"] = nn.Linear(4, 4)
        return evidence

    assert low_precision_idle(running(slow)).share == pytest.approx(0.6)
    assert low_precision_idle(running(slow)).suggests == ("autocast",)
    assert low_precision_idle(running(fast)) is None
    assert low_precision_idle(running(unknown)) is None


@pytest.mark.parametrize(("capability", "plan"), [((7, 0), ('autocast(dtype="fp16")',)), ((6, 1), None)])
def test_a_gpu_without_bfloat16_is_told_of_float16_if_it_has_tensor_cores(capability, plan):
    kernel = KernelRow(
        "volta_sgemm_128x64_nn", "aten::addmm", "forward", "0", 6.0, 0.6, 4.0, uses_tensor_cores=False
    )
    device = DeviceActivity("cuda:0", 10.0, 0.9, 0.1, 0.0, (kernel,), (), (), 9.0, 30.0, 0.0)
    machine = dataclasses.replace(read_machine(), gpus=(Gpu(0, "V100", 2**30, capability),))
    evidence = by_hand({"forward": 1.0}, devices=(device,), machine=machine)
    evidence.objects.models["model"] = nn.Linear(4, 4)
    finding = low_precision_idle(evidence)
    assert (finding and finding.suggests) == plan
    if finding is not None:
        assert "float16 hardware idles" in finding.title
        assert "overflow" in finding.wrong_when


def test_weights_in_bfloat16_are_not():
    evidence = by_hand({"forward": 1.0}, ROWS, namespace=notebook("model = model.to(torch.bfloat16)"))
    evidence.objects.models["model"] = nn.Linear(4, 4, dtype=torch.bfloat16)
    assert low_precision_idle(on(("avx512_bf16",), evidence=evidence)) is None


def test_no_prediction_goes_beyond_the_roofline():
    costs = (OpCost("aten::addmm", "forward", "", "", "float32", 2.0, 8.0, 4e9, 1e6),)

    def predicted(bf16_rate):
        peaks = Peaks(
            (DevicePeaks("cpu", "cpu", 1, (("float32", 1e12), ("bfloat16", bf16_rate)), 1e11),), "", "", 0.0
        )
        rows = (row("aten::addmm", "forward", 0.8, calls=2.0),)
        evidence = by_hand({"forward": 1.0}, rows, costs=costs, peaks=peaks)
        evidence.objects.models["model"] = nn.Linear(4, 4)
        return low_precision_idle(on(("avx512_bf16",), evidence=evidence)).prediction

    near, far = (
        predicted(1e12),
        predicted(0.6e12),
    )  # 8 ms took 4 GFLOP: at these rates they take 4 and 6.7 ms at least
    assert near.ratio < near.high == pytest.approx(1 / (1 - 0.82 * (1 - 1 / 2)))
    assert far.ratio == pytest.approx(1 / (1 - 0.8 * (1 - 1 / 1.2)))
    assert far.high == pytest.approx(1 / (1 - 0.82 * (1 - 1 / 1.2)))
