"""The GPUs of this machine, from NVML where there is a driver, else from torch."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

from accel.machine.nvml import device_name, opened_nvml


@dataclass(frozen=True)
class Gpu:
    """One GPU, by the index that torch gives it."""

    index: int
    name: str
    memory_bytes: int
    capability: tuple[int, int]

    @property
    def has_bf16(self) -> bool:
        """Tensor cores compute in bfloat16 from compute capability 8.0 on."""
        return self.capability >= (8, 0)

    @property
    def has_fp16(self) -> bool:
        """Tensor cores compute in float16 from compute capability 7.0 on."""
        return self.capability >= (7, 0)

    def __str__(self) -> str:
        major, minor = self.capability
        return f"{self.name}, {self.memory_bytes / 2**30:.0f} GiB, compute capability {major}.{minor}"


def read_gpus(*, with_torch: bool = True) -> tuple[Gpu, ...]:
    """The GPUs that torch would see; an empty tuple when there is no driver.

    NVML is asked first: it answers without creating a CUDA context.
    """
    found = _from_nvml()
    return _from_torch() if found is None and with_torch else found or ()


def _from_nvml() -> tuple[Gpu, ...] | None:
    """None when NVML cannot tell: not installed, no driver, or devices named by UUID."""
    with opened_nvml() as nvml:
        if nvml is None:
            return None
        try:
            visible = _visible_indices(nvml.nvmlDeviceGetCount())
            return (
                None
                if visible is None
                else tuple(_nvml_gpu(nvml, n, index) for n, index in enumerate(visible))
            )
        except nvml.NVMLError:
            return None


def _nvml_gpu(nvml: Any, number: int, nvml_index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(nvml_index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle).total
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Gpu(number, device_name(nvml, handle), int(memory), (int(major), int(minor)))


def _visible_indices(count: int) -> list[int] | None:
    """What CUDA_VISIBLE_DEVICES leaves; None when it names devices in a way only CUDA can resolve."""
    setting = os.environ.get("CUDA_VISIBLE_DEVICES")
    if setting is None:
        return list(range(count))
    named = [part.strip() for part in setting.split(",") if part.strip()]
    if not all(part.lstrip("-").isdigit() for part in named):
        return None
    indices: list[int] = []
    for part in named:
        if not 0 <= int(part) < count:  # CUDA stops at the first invalid one
            break
        indices.append(int(part))
    return indices


def _from_torch() -> tuple[Gpu, ...]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return ()
    seen = (torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count()))
    return tuple(Gpu(n, gpu.name, gpu.total_memory, (gpu.major, gpu.minor)) for n, gpu in enumerate(seen))
