"""MIG: one GPU divided into instances that each look like a GPU of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from accel.machine.nvml import asked, asked_text, device_name
from accel.units import counted, size


@dataclass(frozen=True)
class MigInstance:
    """One instance, by the name that CUDA_VISIBLE_DEVICES takes (`uuid`)."""

    uuid: str | None
    name: str
    memory_bytes: int | None
    multiprocessors: int | None
    gpu_instance: int | None
    compute_instance: int | None

    def __str__(self) -> str:
        memory = "memory unknown" if self.memory_bytes is None else size(self.memory_bytes)
        processors = (
            "" if self.multiprocessors is None else f", {self.multiprocessors} streaming multiprocessors"
        )
        return f"{self.name}, {memory}{processors}, {self.uuid or 'no UUID reported'}"


@dataclass(frozen=True)
class Mig:
    """Whether a GPU is divided, or will be after its next reset, and into what."""

    is_on: bool
    is_on_after_reset: bool
    instances: tuple[MigInstance, ...]

    def __str__(self) -> str:
        if not self.is_on:
            return "off, on after the next reset" if self.is_on_after_reset else "off"
        count = len(self.instances)
        held = "no instances" if not count else counted(count, "instance")
        return f"on, {held}" + ("" if self.is_on_after_reset else ", off after the next reset")


def read_mig(nvml: Any, handle: Any) -> Mig | None:
    """None where the GPU cannot be divided or the driver does not tell."""
    modes = asked(nvml, "nvmlDeviceGetMigMode", handle)
    if modes is None:
        return None
    instances = tuple(_instance(nvml, mig) for mig in mig_handles(nvml, handle)) if modes[0] else ()
    return Mig(bool(modes[0]), bool(modes[1]), instances)


def mig_handles(nvml: Any, handle: Any) -> Iterator[Any]:
    """A handle for each instance of a GPU; none where it is not divided. Numbers may have gaps."""
    for number in range(asked(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        mig = asked(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
        if mig is not None:
            yield mig


def is_divided(nvml: Any, handle: Any) -> bool:
    """Whether MIG is on: then CUDA sees the instances, not the GPU."""
    modes = asked(nvml, "nvmlDeviceGetMigMode", handle)
    return bool(modes and modes[0])


def _instance(nvml: Any, mig: Any) -> MigInstance:
    memory = asked(nvml, "nvmlDeviceGetMemoryInfo", mig)
    attributes = asked(nvml, "nvmlDeviceGetAttributes", mig)
    return MigInstance(
        uuid=asked_text(nvml, "nvmlDeviceGetUUID", mig),
        name=device_name(nvml, mig),
        memory_bytes=None if memory is None else int(memory.total),
        multiprocessors=None if attributes is None else int(attributes.multiprocessorCount),
        gpu_instance=asked(nvml, "nvmlDeviceGetGpuInstanceId", mig),
        compute_instance=asked(nvml, "nvmlDeviceGetComputeInstanceId", mig),
    )
