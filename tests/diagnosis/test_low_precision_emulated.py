"""16-bit products on hardware without instructions for them are found; where it has them, or is not known, they are not."""

from __future__ import annotations

import dataclasses
from functools import cache

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from accel.diagnosis import Evidence
from accel.diagnosis.low_precision_emulated import low_precision_emulated
from accel.machine import read_machine
from accel.machine.gpus import Gpu
from accel.profiling.device_activity import DeviceActivity, KernelRow
from accel.profiling.whole_run import WholeRun
from accel.workload.run_conditions import RunConditions
from tests.diagnosis.making import TRAIN, by_hand, real, row

CASTING = TRAIN.replace(
    "    criterion(model(x), y).backward()",
    "    with torch.autocast('cpu', dtype=torch.bfloat16):\n"
    "        loss = criterion(model(x), y)\n"
    "    loss.backward()",
)
LARGE = """
model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(256, 256), torch.randint(0, 4, (256,))
"""
SGEMM = KernelRow(
    "maxwell_sgemm_128x64_nn", "aten::addmm", "forward", "0", 6.0, 0.6, 4.0, uses_tensor_cores=False
)


def casting(number_format="bfloat16", isa=("avx2",), *, share=0.8, weights=torch.float32, device="cpu"):
    """A CPU with these instructions, and a cell under autocast, "" for none."""
    autocast = ((device, number_format),) if number_format else ()
    conditions = RunConditions(2, False, False, False, False, autocast=autocast)
    evidence = by_hand(
        {"forward": 1.0}, (row("aten::addmm", "forward", share, calls=2.0),),
        machine=dataclasses.replace(read_machine(), isa=isa, gpus=()), whole_run=WholeRun(conditions=conditions),
    )  # fmt: skip
    evidence.objects.models["model"] = nn.Linear(4, 4, dtype=weights)
    return evidence


@cache
def faulty():
    return casting()


@cache
def sound():
    return casting(isa=("avx2", "avx512_bf16"))


def test_a_cell_that_casts_to_a_format_the_cpu_emulates_is_found_with_its_line():
    profiled = real(CASTING, LARGE)
    machine = dataclasses.replace(profiled.machine, isa=("avx2",), gpus=(), cpu_model="A CPU of 2017")
    finding = low_precision_emulated(Evidence(profiled.profile, profiled.workload, machine))
    assert finding.title.startswith("bfloat16 without hardware support: ")
    assert "Autocast casts to bfloat16, for which A CPU of 2017 has no instructions" in finding.what
    assert finding.suggests == ("autocast_off",)
    lines = profiled.workload.source.splitlines()
    assert lines[finding.line - 1] == "    with torch.autocast('cpu', dtype=torch.bfloat16):"
    assert 1 == finding.prediction.low < finding.prediction.ratio


@pytest.mark.parametrize(
    ("number_format", "isa", "is_found"),
    [
        ("bfloat16", ("avx2",), True),
        ("float16", ("avx2", "f16c"), True),
        ("float16", ("avx512_bf16",), True),
        ("bfloat16", ("asimdhp",), True),
        ("bfloat16", ("amx_bf16",), False),
        ("bfloat16", ("bf16",), False),
        ("float16", ("avx512_fp16",), False),
        ("float16", ("asimdhp",), False),
        ("bfloat16", (), False),  # nothing names the instructions
        ("float32", ("avx2",), False),
        ("", ("avx2",), False),
    ],
)
def test_it_depends_on_the_format_and_on_the_instructions(number_format, isa, is_found):
    assert (low_precision_emulated(casting(number_format, isa)) is not None) == is_found


def test_the_wider_the_cpus_instructions_the_less_an_emulated_format_costs():
    cells = [casting("bfloat16", ("avx2", "avx512f")), casting("bfloat16"), casting("float16")]
    predicted = [low_precision_emulated(cell).prediction for cell in cells]
    for end in ("ratio", "high"):
        figures = [getattr(each, end) for each in predicted]
        assert figures == sorted({*figures})


def test_an_autocast_for_another_device_casts_nothing_on_this_one():
    assert low_precision_emulated(casting(device="cuda")) is None


def test_a_cell_with_few_products_is_not():
    assert low_precision_emulated(casting(share=0.02)) is None


def test_what_is_taken_out_already_is_not():
    assert low_precision_emulated(dataclasses.replace(faulty(), live=("autocast_off",))) is None


@pytest.mark.parametrize("weights", [torch.bfloat16, torch.float16])
def test_weights_in_such_a_format_are_found_and_nothing_can_be_tried(weights):
    evidence = casting("", weights=weights)
    finding = low_precision_emulated(evidence)
    assert "The weights are in" in finding.what
    assert finding.suggests == ()
    assert "model.float()" in finding.remedy
    assert finding.prediction.low > low_precision_emulated(casting()).prediction.low == 1.0
    evidence.objects.models["model"] = nn.ModuleList([nn.Linear(2, 2, dtype=weights), nn.Linear(64, 64)])
    assert low_precision_emulated(evidence) is None  # a small part of the model


@pytest.mark.parametrize(
    ("number_format", "capability", "is_found"),
    [
        ("bfloat16", (6, 1), True),
        ("bfloat16", (7, 0), True),
        ("float16", (5, 2), True),
        ("float16", (6, 0), False),  # P100
        ("float16", (6, 1), False),
        ("float16", (7, 0), False),
        ("bfloat16", (8, 0), False),
    ],
)
def test_gpus_without_the_format_are_found_by_their_kernels(number_format, capability, is_found):
    conditions = RunConditions(2, False, False, False, False, autocast=(("cuda", number_format),))
    device = DeviceActivity("cuda:0", 10.0, 0.9, 0.1, 0.0, (SGEMM,), (), (), 9.0, 30.0, 0.0)
    machine = dataclasses.replace(read_machine(), gpus=(Gpu(0, "Some GPU", 2**30, capability),))
    evidence = by_hand(
        {"forward": 1.0}, devices=(device,), machine=machine, whole_run=WholeRun(conditions=conditions)
    )
    with FakeTensorMode():
        evidence.objects.models["model"] = nn.Linear(4, 4, device="cuda")
    finding = low_precision_emulated(evidence)
    assert (finding is not None) == is_found
    if is_found:
        assert finding.share == pytest.approx(0.6)
        assert "Some GPU" in finding.what
