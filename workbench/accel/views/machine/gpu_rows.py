"""The GPUs of a machine in a few rows: those of a kind together, then what is noteworthy about any of them."""

from __future__ import annotations

from accel.machine.cpu import cpu_list
from accel.machine.gpus import Gpu
from accel.machine.number_formats import on_tensor_cores


def gpu_rows(gpus: tuple[Gpu, ...], *, is_nvidia: bool = True) -> list[tuple[str, str]]:
    """(what, value) pairs for `%accel machine`; everything else is in each GPU's `details`.

    >>> gpu_rows(accel.machine().gpus)[0]
    ('GPUs', '8 × NVIDIA H100 80GB HBM3, 80 GiB, compute capability 9.0, PCIe 5 x16, 18 NVLink 4.0 to NVSwitch')
    """
    if not gpus:
        return [("GPUs", "none")]
    kinds: dict[str, list[int]] = {}
    capabilities: dict[tuple[int, int], list[int]] = {}
    noted: dict[str, list[int]] = {}
    for gpu in gpus:
        kinds.setdefault(_essentials(gpu), []).append(gpu.index)
        capabilities.setdefault(gpu.capability, []).append(gpu.index)
        for note in gpu.notes:
            noted.setdefault(note, []).append(gpu.index)
        if gpu.details is not None and gpu.details.nvml_index != gpu.index:
            noted[f"is number {gpu.details.nvml_index} for nvidia-smi and %accel topology"] = [gpu.index]
    rows = []
    for words, indices in kinds.items():
        count = f"{len(indices)} × " if len(indices) > 1 else ""
        rows.append(("GPUs" if len(kinds) == 1 else _named(indices), f"{count}{words}"))
    for capability, indices in capabilities.items() if is_nvidia else ():
        formats = ", ".join(on_tensor_cores(capability)) or "none: they came with compute capability 7.0"
        rows.append(("Tensor cores", formats if len(capabilities) == 1 else f"{_named(indices)}: {formats}"))
    return rows + [(_named(indices), note) for note, indices in noted.items()]


def _essentials(gpu: Gpu) -> str:
    parts = [str(gpu)]
    if gpu.details is not None:
        has_pcie = gpu.details.pcie.most_width is not None or gpu.details.pcie.most_generation is not None
        parts += [str(gpu.details.pcie)] if has_pcie else []
        links = gpu.details.nvlinks
        parts += [links.in_short] if links is not None and links.active else []
    return ", ".join(parts)


def _named(indices: list[int]) -> str:
    return f"GPU {cpu_list(indices)}"
