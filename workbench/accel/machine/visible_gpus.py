"""Which GPUs, or which instance of a divided GPU, CUDA would give this process: CUDA_VISIBLE_DEVICES, resolved by NVML."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from accel.machine.cpu_lists import cpu_list
from accel.machine.gpu_details.mig import is_divided, mig_handles
from accel.machine.gpu_details.reading import all_handles
from accel.machine.nvml import asked, asked_text, device_name
from accel.machine.system_files import number_in

_NUMBER = re.compile(r"\+?([0-9]+)")  # CUDA reads as far as there are digits: "1st" is 1


@dataclass(frozen=True)
class VisibleGpu:
    """A GPU by the number that `nvidia-smi` gives it; `mig` is the handle of the instance, where the GPU is divided."""

    nvml_index: int
    handle: Any
    mig: Any | None = None

    @property
    def device(self) -> Any:
        """The handle that tells name and memory as CUDA sees them."""
        return self.handle if self.mig is None else self.mig


def visible_gpus(nvml: Any, setting: str | None) -> tuple[VisibleGpu, ...]:
    """In CUDA's order, by CUDA's rules, from what CUDA_VISIBLE_DEVICES says (None: it is not set).

    >>> [gpu.nvml_index for gpu in visible_gpus(nvml, "2,0")]
    [2, 0]

    A list ends at the first entry that names nothing, an empty one too, or is of another kind than the first (numbers, GPU-…,
    MIG-…); one that names a GPU twice names none. UUIDs may be cut short where that leaves one GPU only. Of instances CUDA
    shows a process one, the first, and no whole GPU with it. Without CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA puts the fastest
    model first, which NVML cannot tell: this order is that of the bus.
    """
    found: list[VisibleGpu] = []
    for gpu in _all_or_named(nvml, setting):
        if gpu.mig is not None or not is_divided(nvml, gpu.handle):
            found.append(gpu)
        elif (first := next(mig_handles(nvml, gpu.handle), None)) is not None:
            found.append(VisibleGpu(gpu.nvml_index, gpu.handle, first))
    instances = tuple(gpu for gpu in found if gpu.mig is not None)
    return instances[:1] or tuple(found)


def has_sure_order(nvml: Any, setting: str | None, order: str | None) -> bool:
    """Whether numbers mean the same GPUs to CUDA as here: unless CUDA_DEVICE_ORDER says otherwise it sorts models by speed.

    >>> has_sure_order(nvml, "0,1", "PCI_BUS_ID")
    True
    """
    by_uuid = setting is not None and not any(_NUMBER.match(part.strip()) for part in setting.split(","))
    models = {device_name(nvml, handle) for handle in all_handles(nvml).values()}
    return order == "PCI_BUS_ID" or by_uuid or len(models) < 2


def hidden_gpus(nvml: Any, setting: str | None) -> tuple[str, ...]:
    """Why CUDA shows this process fewer GPUs than the machine has, a sentence a reason; empty where it shows all.

    >>> hidden_gpus(nvml, "2,0")
    ('CUDA_VISIBLE_DEVICES leaves out GPU 1,3-7',)
    """
    gpus = all_handles(nvml)
    shown = {gpu.nvml_index for gpu in visible_gpus(nvml, setting)}
    named = {gpu.nvml_index for gpu in _all_or_named(nvml, setting)}
    empty = [
        n
        for n in named - shown
        if is_divided(nvml, gpus[n]) and next(mig_handles(nvml, gpus[n]), None) is None
    ]
    silent = [n for n in range(asked(nvml, "nvmlDeviceGetCount") or 0) if n not in gpus]
    reasons = {
        "CUDA_VISIBLE_DEVICES leaves out GPU {}": gpus.keys() - named,
        "MIG is on and there is no instance of GPU {}: create one (nvidia-smi mig -cgi 0 -C), or nvidia-smi -mig 0": empty,
        "with an instance of a GPU that MIG divides CUDA shows no other: GPU {}": named - shown - set(empty),
        "the driver gets no answer from GPU {}: dmesg says why (Xid), and a reset or a reboot may bring it back": silent,
    }  # fmt: skip
    return tuple(words.format(cpu_list(sorted(numbers))) for words, numbers in reasons.items() if numbers)


def _all_or_named(nvml: Any, setting: str | None) -> tuple[VisibleGpu, ...]:
    gpus = tuple(VisibleGpu(number, handle) for number, handle in all_handles(nvml).items())
    return gpus if setting is None else _named(nvml, gpus, setting)


def _named(nvml: Any, gpus: tuple[VisibleGpu, ...], setting: str) -> tuple[VisibleGpu, ...]:
    found: list[VisibleGpu] = []
    kind = _kind(setting.strip())
    for entry in (part.strip() for part in setting.split(",")):
        gpu = _one(nvml, gpus, entry) if _kind(entry) == kind else None
        if gpu is None:
            break
        if gpu in found:
            return ()
        found.append(gpu)
    return tuple(found)


def _kind(entry: str) -> str:
    return next((prefix for prefix in ("GPU-", "MIG-") if entry.startswith(prefix)), "number")


def _one(nvml: Any, gpus: tuple[VisibleGpu, ...], entry: str) -> VisibleGpu | None:
    if _kind(entry) == "number":
        digits = _NUMBER.match(entry)
        return next((gpu for gpu in gpus if digits and gpu.nvml_index == number_in(digits[1])), None)
    candidates = gpus if entry.startswith("GPU-") else _instances(nvml, gpus)
    matching = [gpu for gpu in candidates if any(name.startswith(entry) for name in _names(nvml, gpu))]
    exact = [gpu for gpu in matching if entry in _names(nvml, gpu)]
    return exact[0] if exact else matching[0] if len(matching) == 1 else None


def _instances(nvml: Any, gpus: tuple[VisibleGpu, ...]) -> tuple[VisibleGpu, ...]:
    return tuple(
        VisibleGpu(gpu.nvml_index, gpu.handle, mig) for gpu in gpus for mig in mig_handles(nvml, gpu.handle)
    )


def _names(nvml: Any, gpu: VisibleGpu) -> list[str]:
    """What the variable may call it: an instance also as drivers before 470 did, MIG-GPU-UUID/GPU instance/compute instance."""
    names = [asked_text(nvml, "nvmlDeviceGetUUID", gpu.device) or ""]
    if gpu.mig is not None:
        whole = asked_text(nvml, "nvmlDeviceGetUUID", gpu.handle)
        parts = (asked(nvml, f"nvmlDeviceGet{kind}InstanceId", gpu.mig) for kind in ("Gpu", "Compute"))
        names.append("/".join([f"MIG-{whole}", *map(str, parts)]))
    return names
