"""CUDA_VISIBLE_DEVICES by CUDA's rules: numbers, UUIDs, instances of divided GPUs."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from accel.machine import read_machine
from accel.machine.visible_gpus import has_sure_order, hidden_gpus, visible_gpus
from tests.machine import fake_nvml
from tests.machine.fake_nvml import FakeNvml, divided_a100, eight_h100, two_rtx_4090


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (None, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("", []),
        ("2,0", [2, 0]),
        ("1, -1, 0", [1]),
        ("0,8,1", [0]),
        ("GPU-3f0a5c3e-0000-4000-8000-000000000000,GPU-1f", [3, 1]),
        ("GPU-", []),  # eight GPUs begin so
        ("GPU-nothing,0", []),
        ("MIG-nothing", []),
        ("a word", []),
        ("0,0", []),
        ("GPU-0f,GPU-0f", []),
        ("0,,1", [0]),
        ("0,8,0", [0]),  # the list has ended before it names one twice
        ("1st,+2", [1, 2]),
        ("--1", []),
        ("²", []),
        ("9" * 5000, []),
        ("1,GPU-0f", [1]),
        ("GPU-0f,1", [0]),
    ],
)
def test_gpus_are_named_by_number_or_uuid(setting, expected) -> None:
    assert [gpu.nvml_index for gpu in visible_gpus(eight_h100(), setting)] == expected


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (None, "MIG-11111111-aaaa"),
        ("0", "MIG-11111111-aaaa"),
        ("GPU-cc", "MIG-11111111-aaaa"),
        ("MIG-22222222-bbbb", "MIG-22222222-bbbb"),
        ("MIG-2", "MIG-22222222-bbbb"),
        ("MIG-22222222-bbbb,MIG-11111111-aaaa", "MIG-22222222-bbbb"),
        ("MIG-GPU-cc0000-0001/9/0", "MIG-22222222-bbbb"),
    ],
)
def test_of_instances_a_process_sees_one(setting, expected) -> None:
    (gpu,) = visible_gpus(divided_a100(), setting)
    assert gpu.device.uuid == expected


def test_an_instance_hides_whole_gpus() -> None:
    mixed = FakeNvml([*two_rtx_4090().gpus, *divided_a100().gpus])
    (gpu,) = visible_gpus(mixed, None)
    assert gpu.nvml_index == 2
    assert [gpu.nvml_index for gpu in visible_gpus(mixed, "1,0")] == [1, 0]


def test_a_divided_gpu_without_instances_is_left_out() -> None:
    whole, divided = two_rtx_4090().gpus[0], divided_a100().gpus[0]
    assert [
        gpu.nvml_index for gpu in visible_gpus(FakeNvml([replace(divided, instances=()), whole]), None)
    ] == [1]


@pytest.mark.parametrize(
    ("setting", "order", "expected"),
    [
        (None, None, False),
        ("0", None, False),  # CUDA's 0 is the faster model, whichever that is
        ("0", "FASTEST_FIRST", False),
        ("0", "PCI_BUS_ID", True),
        ("GPU-aa,GPU-dd", None, True),
    ],
)
def test_numbers_of_several_models_need_an_order(setting, order, expected) -> None:
    mixed = FakeNvml([*fake_nvml.old_driver().gpus, *two_rtx_4090().gpus])
    assert has_sure_order(mixed, setting, order) is expected
    assert has_sure_order(eight_h100(), setting, order)


def test_gpus_that_cuda_does_not_show_are_named_with_the_reason(monkeypatch) -> None:
    assert hidden_gpus(eight_h100(), None) == ()
    assert hidden_gpus(eight_h100(), "2,0") == ("CUDA_VISIBLE_DEVICES leaves out GPU 1,3-7",)
    whole, divided = two_rtx_4090().gpus[0], divided_a100().gpus[0]
    (why,) = hidden_gpus(FakeNvml([whole, divided]), None)
    assert why.endswith("CUDA shows no other: GPU 0")
    (why,) = hidden_gpus(FakeNvml([whole, replace(divided, instances=())]), None)
    assert why.startswith("MIG is on and there is no instance of GPU 1: create one")
    answer = fake_nvml.ANSWERS["nvmlDeviceGetHandleByIndex"]
    monkeypatch.setitem(
        fake_nvml.ANSWERS, "nvmlDeviceGetHandleByIndex", lambda m, n: None if n == 3 else answer(m, n)
    )
    (why,) = hidden_gpus(eight_h100(), None)
    assert why.startswith("the driver gets no answer from GPU 3: dmesg")


def test_the_machine_says_why_it_shows_no_gpu(monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setitem(sys.modules, "pynvml", eight_h100())
    try:
        machine = read_machine(again=True)
        assert machine.gpus == ()
        assert "CUDA_VISIBLE_DEVICES leaves out GPU 0-7" in str(machine)
        monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.broken())
        assert "none: no NVIDIA driver answers (Driver/library version mismatch)" in str(
            read_machine(again=True)
        )
    finally:
        monkeypatch.undo()
        read_machine(again=True)
