"""Which number formats this machine computes in: its CPU by instruction sets, its GPUs by compute capability."""

from __future__ import annotations

from accel.machine.machine import Machine
from accel.machine.number_formats import FORMATS, DeviceFormats, NumberFormats, Support, on_nvidia


def formats_of(machine: Machine) -> NumberFormats:
    """The formats on the CPU and on each GPU of a machine.

    >>> print(formats_of(read_machine()))
    """
    cpu = _on_cpu(set(machine.isa), has_fp16=machine.has_cpu_fp16, has_bf16=machine.has_cpu_bf16)
    is_nvidia = "rocm" not in (machine.torch or "")
    gpus = [
        DeviceFormats(
            f"cuda:{gpu.index} ({gpu.name})", _in_order(on_nvidia(gpu.capability) if is_nvidia else {})
        )
        for gpu in machine.gpus
    ]
    return NumberFormats((DeviceFormats(f"cpu ({machine.cpu_model})", _in_order(cpu)), *gpus))


def _on_cpu(isa: set[str], *, has_fp16: bool, has_bf16: bool) -> dict[str, Support]:
    if not isa:
        return {"fp64": "native", "fp32": "native", "tf32": "no", "int32": "native", "int8": "native"}
    has_int8_products = {"avx512_vnni", "avx_vnni", "amx_int8", "i8mm"} & isa
    return {
        "fp64": "native",
        "fp32": "native",
        "tf32": "no",
        "bf16": "matrix units" if has_bf16 else "emulated",
        "fp16": "matrix units" if "amx_fp16" in isa else "native" if has_fp16 else "emulated",
        "fp8 e4m3": "storage only",
        "fp8 e5m2": "storage only",
        "int32": "native",
        "int8": "matrix units" if has_int8_products else "native",
    }


def _in_order(known: dict[str, Support]) -> tuple[Support, ...]:
    return tuple(known.get(each.name, "unknown") for each in FORMATS)
