"""The GPUs of this machine, from NVML where there is a driver, else from torch."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from typing import Any

from accel.machine.gpu_details import GpuDetails, read_gpu_details
from accel.machine.gpu_details.notes import notes_of
from accel.machine.number_formats import on_tensor_cores
from accel.machine.nvml import asked, device_name, opened_nvml
from accel.machine.visible_gpus import VisibleGpu, has_sure_order, hidden_gpus, visible_gpus


@dataclass(frozen=True)
class Gpu:
    """One GPU, by the index that torch gives it; `details` is what the driver tells of it, None without NVML.

    >>> accel.machine().gpus[0].details.power.limit_w
    700.0

    `has_sure_index` is False where CUDA may number the GPUs in another order than the driver; `memory_bytes` is 0 where the
    driver does not tell, as of GPUs that share the CPU's memory.
    """

    index: int
    name: str
    memory_bytes: int
    capability: tuple[int, int]
    details: GpuDetails | None = None
    has_sure_index: bool = True

    @property
    def has_bf16(self) -> bool:
        """Whether tensor cores compute in bfloat16."""
        return "bf16" in on_tensor_cores(self.capability)

    @property
    def has_fp16(self) -> bool:
        """Whether tensor cores compute in float16."""
        return "fp16" in on_tensor_cores(self.capability)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is noteworthy about it, each with what to do; empty where it is as it should be."""
        order = "CUDA numbers GPUs of several models by speed, and may call another one so: set CUDA_DEVICE_ORDER=PCI_BUS_ID"
        return (*(() if self.has_sure_index else (order,)), *(notes_of(self.details) if self.details else ()))

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain numbers, strings, lists and dictionaries, and the notes."""
        return asdict(self) | {"notes": list(self.notes)}

    def __str__(self) -> str:
        major, minor = self.capability
        memory = (
            f"{self.memory_bytes / 2**30:.0f} GiB"
            if self.memory_bytes
            else "memory unknown (shared with the CPU?)"
        )
        return f"{self.name}, {memory}, compute capability {major}.{minor}"


def read_gpus(*, with_torch: bool = True) -> tuple[Gpu, ...]:
    """The GPUs that torch would see; an empty tuple when there is no driver.

    NVML is asked first: it answers without creating a CUDA context.
    """
    found = _from_nvml()
    return _from_torch() if found is None and with_torch else found or ()


def read_hidden_gpus() -> tuple[str, ...]:
    """Why CUDA shows this process fewer GPUs than there are; empty where it shows all, or no driver answers.

    >>> read_hidden_gpus()
    ('CUDA_VISIBLE_DEVICES leaves out GPU 1,3-7',)
    """
    with opened_nvml() as nvml:
        return () if nvml is None else hidden_gpus(nvml, os.environ.get("CUDA_VISIBLE_DEVICES"))


def _from_nvml() -> tuple[Gpu, ...] | None:
    """None when NVML cannot tell: not installed, or no driver answers."""
    with opened_nvml() as nvml:
        if nvml is None:
            return None
        try:
            setting = os.environ.get("CUDA_VISIBLE_DEVICES")
            is_sure = has_sure_order(nvml, setting, os.environ.get("CUDA_DEVICE_ORDER"))
            visible = visible_gpus(nvml, setting)
            return tuple(_nvml_gpu(nvml, n, gpu, is_sure) for n, gpu in enumerate(visible))
        except nvml.NVMLError:
            return None


def _nvml_gpu(nvml: Any, number: int, gpu: VisibleGpu, has_sure_index: bool) -> Gpu:
    memory = asked(nvml, "nvmlDeviceGetMemoryInfo", gpu.device)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(gpu.handle)
    return Gpu(
        number,
        device_name(nvml, gpu.device),
        0 if memory is None else int(memory.total),
        (int(major), int(minor)),
        read_gpu_details(nvml, gpu.nvml_index),
        has_sure_index,
    )


def _from_torch() -> tuple[Gpu, ...]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return ()
    seen = (torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count()))
    return tuple(Gpu(n, gpu.name, gpu.total_memory, (gpu.major, gpu.minor)) for n, gpu in enumerate(seen))
