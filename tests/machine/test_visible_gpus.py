"""CUDA_VISIBLE_DEVICES by CUDA's rules: numbers, UUIDs, instances of divided GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accel.machine.visible_gpus import visible_gpus
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
