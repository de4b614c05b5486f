"""What %accel machine shows of GPUs: kinds together, exceptions one by one."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from accel.machine import Gpu, read_machine
from accel.machine.gpus import read_gpus
from accel.views.machine.gpu_rows import gpu_rows
from tests.machine import fake_nvml
from tests.machine.fake_nvml import FakeNvml


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)

    def of(nvml):
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        return gpu_rows(read_gpus(with_torch=False))

    return of


def test_eight_of_a_kind_are_one_row(rows) -> None:
    kind = "8 × NVIDIA H100 80GB HBM3, 80 GiB, compute capability 9.0, PCIe 5 x16, 18 NVLink 4.0 to NVSwitch"
    assert rows(fake_nvml.eight_h100()) == [
        ("GPUs", kind),
        ("Tensor cores", "fp64, tf32, bf16, fp16, fp8 e4m3, fp8 e5m2, int8"),
    ]


def test_gpus_joined_to_different_ones_are_still_of_a_kind(rows) -> None:
    nvml = fake_nvml.eight_h100()
    for number, gpu in enumerate(nvml.gpus):
        gpu.nvlinks = dict.fromkeys(range(4), number ^ 1)
    (who, words), *_ = rows(nvml)
    assert (who, words.split(", ")[-1]) == ("GPUs", "4 NVLink 4.0")


def test_one_that_differs_has_a_row_of_its_own(rows) -> None:
    nvml = fake_nvml.eight_h100()
    nvml.gpus[6].reasons = 0x40
    *_, (who, note) = rows(nvml)
    assert who == "GPU 6"
    assert note.startswith("its clocks are held back by heat (slowed down by the hardware): look at fans")


def test_what_holds_of_several_is_said_once(rows) -> None:
    found = rows(fake_nvml.two_rtx_4090())
    assert [who for who, _ in found if who.startswith("GPU ")].count("GPU 0-1") == 1
    assert sum("does not reach the memory of any other GPU" in note for _, note in found) == 1


def test_gpus_of_several_models_may_have_other_numbers_in_cuda(rows, monkeypatch) -> None:
    mixed = FakeNvml([*fake_nvml.old_driver().gpus, *fake_nvml.two_rtx_4090().gpus])
    assert any("CUDA_DEVICE_ORDER=PCI_BUS_ID" in note for _, note in rows(mixed))
    assert ("Tensor cores", "GPU 0: none: they came with compute capability 7.0") in rows(mixed)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert not any("CUDA_DEVICE_ORDER" in note for _, note in rows(mixed))


def test_renumbered_gpus_are_named_by_both_numbers(rows, monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,1")
    found = rows(fake_nvml.eight_h100())
    assert ("GPU 0", "is number 5 for nvidia-smi and %accel topology") in found
    assert not any(note.startswith("is number 1 ") for _, note in found)


def test_no_gpu_and_one_that_only_torch_knows_have_a_row_too() -> None:
    assert gpu_rows(()) == [("GPUs", "none")]
    known_to_torch = (Gpu(0, "AMD Instinct MI300X", 192 * 2**30, (9, 4)),)
    assert gpu_rows(known_to_torch, is_nvidia=False) == [
        ("GPUs", "AMD Instinct MI300X, 192 GiB, compute capability 9.4")
    ]


def test_a_machine_with_gpus_shows_and_writes_them(rows, monkeypatch) -> None:
    rows(fake_nvml.two_rtx_4090())
    machine = replace(read_machine(), gpus=read_gpus(with_torch=False))
    assert "NVIDIA GeForce RTX 4090" in str(machine)
    read_back = json.loads(json.dumps(machine.to_dict()))["gpus"][1]
    assert read_back["details"]["power"] == {"draw_w": 299.0, "limit_w": 300.0, "default_limit_w": 450.0}
    assert any("300 W of the usual 450 W" in note for note in read_back["notes"])
