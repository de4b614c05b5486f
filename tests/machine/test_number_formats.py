from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

import accel
from accel.machine import Gpu, read_machine
from accel.machine.formats_of_machine import formats_of
from accel.machine.number_formats import FORMATS, MEANING, on_tensor_cores

TORCH_NAMES = {
    "fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16,
    "fp8 e4m3": torch.float8_e4m3fn, "fp8 e5m2": torch.float8_e5m2, "int32": torch.int32, "int8": torch.int8,
}  # fmt: skip


def machine(*, isa=("avx2",), capability=None, name="a GPU", version="2.14.0+cu130"):
    gpus = (Gpu(0, name, 2**30, capability),) if capability else ()
    return replace(read_machine(), isa=isa, gpus=gpus, torch=version)


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_the_numbers_are_those_that_torch_has(each) -> None:
    if each.name == "tf32":  # no dtype of torch: float32 with 10 bits of fraction
        assert (each.total_bits, each.epsilon, each.smallest_normal) == (
            19,
            2**-10,
            torch.finfo(torch.float32).tiny,
        )
        return
    dtype = TORCH_NAMES[each.name]
    info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    assert (each.total_bits, each.largest) == (info.bits, info.max)
    if dtype.is_floating_point:
        assert (each.smallest_normal, each.epsilon) == (info.tiny, info.eps)
        assert each.total_bits == 1 + each.exponent_bits + each.fraction_bits


@pytest.mark.parametrize(
    ("isa", "bf16", "fp16", "int8"),
    [
        (("avx2",), "emulated", "emulated", "native"),
        (("avx512_bf16", "avx512_vnni"), "matrix units", "emulated", "matrix units"),
        (("avx512_fp16", "amx_bf16", "amx_int8"), "matrix units", "native", "matrix units"),
        (("amx_bf16", "amx_fp16"), "matrix units", "matrix units", "native"),
        (("asimd", "asimdhp", "bf16", "i8mm"), "matrix units", "native", "matrix units"),
        ((), "unknown", "unknown", "native"),
    ],
)
def test_a_cpu_is_told_by_its_instruction_sets(isa, bf16, fp16, int8) -> None:
    (cpu,) = formats_of(machine(isa=isa)).devices
    assert (cpu.of("bf16"), cpu.of("fp16"), cpu.of("int8")) == (bf16, fp16, int8)
    assert (cpu.of("fp32"), cpu.of("tf32")) == ("native", "no")


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ((5, 2), {"fp16": "emulated", "int8": "native", "tf32": "no"}),
        ((6, 0), {"fp16": "native", "bf16": "emulated"}),
        (
            (7, 0),
            {"fp16": "matrix units", "int8": "native", "bf16": "emulated", "tf32": "no", "fp64": "native"},
        ),
        ((7, 5), {"fp16": "matrix units", "int8": "matrix units", "tf32": "no"}),
        (
            (8, 0),
            {
                "tf32": "matrix units",
                "bf16": "matrix units",
                "fp8 e4m3": "storage only",
                "fp64": "matrix units",
            },
        ),
        ((8, 6), {"tf32": "matrix units", "fp64": "native", "fp8 e5m2": "storage only"}),
        ((8, 9), {"fp8 e4m3": "matrix units", "fp64": "native"}),
        ((9, 0), {"fp8 e4m3": "matrix units", "fp8 e5m2": "matrix units", "fp64": "matrix units"}),
        ((10, 0), {"fp8 e4m3": "matrix units", "fp64": "matrix units", "bf16": "matrix units"}),
        ((12, 0), {"fp8 e4m3": "matrix units", "fp64": "native", "tf32": "matrix units"}),
    ],
)
def test_a_gpu_is_told_by_its_compute_capability(capability, expected) -> None:
    gpu = formats_of(machine(capability=capability)).devices[1]
    assert {name: gpu.of(name) for name in expected} == expected


def test_a_gpu_has_16_bit_products_where_the_table_says_so() -> None:
    """One table for the rows of a machine, for the list of formats and for `has_bf16`: from Maxwell to Blackwell."""
    for capability in [
        (5, 2),
        (6, 0),
        (7, 0),
        (7, 5),
        (8, 0),
        (8, 6),
        (8, 9),
        (9, 0),
        (10, 0),
        (10, 3),
        (12, 0),
    ]:
        gpu, on_cores = Gpu(0, "a GPU", 2**30, capability), on_tensor_cores(capability)
        listed = formats_of(machine(capability=capability)).devices[1]
        assert (gpu.has_bf16, gpu.has_fp16) == ("bf16" in on_cores, "fp16" in on_cores)
        assert on_cores == tuple(each.name for each in FORMATS if listed.of(each.name) == "matrix units")
    assert on_tensor_cores((6, 1)) == ()
    assert on_tensor_cores((7, 0)) == ("fp16",)


def test_of_another_makers_gpu_nothing_is_claimed() -> None:
    gpu = formats_of(machine(capability=(9, 4), version="2.14.0+rocm7.0")).devices[1]
    assert set(gpu.support) == {"unknown"}


def test_the_table_tells_the_same_as_text_as_json_and_as_a_data_frame() -> None:
    found = formats_of(machine(isa=("avx512_bf16",), capability=(8, 0), name="<b>GPU</b>"))
    text = str(found)
    assert "65504" in text
    row = next(line for line in text.splitlines() if line.startswith("bf16"))
    assert row.split()[:4] == ["bf16", "16", "8", "7"]
    assert all(f"{word}: " in text for word in {word for device in found.devices for word in device.support})
    frame = found.to_dataframe()
    assert frame.loc[frame.name == "fp16", "largest"].item() == 65504
    assert frame.loc[frame.name == "tf32", "cuda:0 (<b>GPU</b>)"].item() == "matrix units"
    assert json.loads(json.dumps(found.to_dict()))["formats"][0]["name"] == "fp64"
    assert "<b>" not in found._repr_mimebundle_()["text/html"]


def test_the_legend_explains_only_what_is_shown() -> None:
    legend = formats_of(machine(isa=("avx2",))).legend
    assert not any(line.startswith(("unknown", "matrix units")) for line in legend)
    assert len(legend) < len(MEANING)


def test_it_is_a_function_of_the_package() -> None:
    assert accel.number_formats() == formats_of(read_machine())
