"""The GPUs of this machine, from NVML where there is a driver, else from torch."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

from accel.machine.gpu_details import GpuDetails, read_gpu_details
from accel.machine.nvml import device_name, opened_nvml
from accel.machine.visible_gpus import VisibleGpu, visible_gpus


@dataclass(frozen=True)
class Gpu:
    """One GPU, by the index that torch gives it; `details` is what the driver tells of it, None without NVML.

    >>> accel.machine().gpus[0].details.power.limit_w
    700.0
    """

    index: int
    name: str
    memory_bytes: int
    capability: tuple[int, int]
    details: GpuDetails | None = None

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
    """None when NVML cannot tell: not installed, or no driver answers."""
    with opened_nvml() as nvml:
        if nvml is None:
            return None
        try:
            visible = visible_gpus(nvml, os.environ.get("CUDA_VISIBLE_DEVICES"))
            return tuple(_nvml_gpu(nvml, n, gpu) for n, gpu in enumerate(visible))
        except nvml.NVMLError:
            return None


def _nvml_gpu(nvml: Any, number: int, gpu: VisibleGpu) -> Gpu:
    memory = nvml.nvmlDeviceGetMemoryInfo(gpu.device).total
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(gpu.handle)
    details = read_gpu_details(nvml, gpu.nvml_index)
    return Gpu(number, device_name(nvml, gpu.device), int(memory), (int(major), int(minor)), details)


def _from_torch() -> tuple[Gpu, ...]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return ()
    seen = (torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count()))
    return tuple(Gpu(n, gpu.name, gpu.total_memory, (gpu.major, gpu.minor)) for n, gpu in enumerate(seen))
