"""What the text and the HTML of a Machine show: rows of (what, value), group by group in reading order."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel.machine.machine import Machine

Rows = list[tuple[str, str]]

NOT_TOLD = "not told by the system"


def groups_of(machine: Machine) -> list[tuple[str, Rows]]:
    """(group, its rows); a group without rows is left out.

    >>> groups_of(accel.machine())[0][0]
    'Processor'
    """
    groups = [
        ("Processor", _processor(machine)),
        ("Memory", _memory(machine)),
        ("GPUs", _gpus(machine)),
        ("Software", _software(machine)),
    ]
    return [(name, rows) for name, rows in groups if rows]


def _processor(machine: Machine) -> Rows:
    return [
        ("Processor", machine.cpu_model),
        ("Cores", _cores(machine)),
        ("Caches", ", ".join(map(str, machine.caches)) or NOT_TOLD),
        ("Instruction sets", " ".join(machine.isa) or NOT_TOLD),
        ("Load average", NOT_TOLD if machine.load_average is None else f"{machine.load_average:.2f}"),
    ]


def _memory(machine: Machine) -> Rows:
    available = f"{machine.available_bytes / 2**30:.1f} of {machine.memory_bytes / 2**30:.1f} GiB available"
    return [("Memory", available)]


def _gpus(machine: Machine) -> Rows:
    return [("GPUs", "; ".join(map(str, machine.gpus)) or "none")]


def _software(machine: Machine) -> Rows:
    return [
        ("System", f"{machine.os} {machine.os_release}, Python {machine.python}"),
        ("torch", f"{machine.torch or 'missing'}, torchvision {machine.torchvision or 'missing'}"),
        ("Torch threads", "torch is not loaded" if machine.torch_threads is None else str(machine.torch_threads)),
        ("C compiler", machine.c_compiler or "none on PATH: torch.compile cannot build kernels"),
        ("Python.h", machine.python_header or "missing: torch.compile cannot build kernels"),
        ("OpenMP runtime", machine.openmp_runtime or "none loaded"),
        ("Memory allocator", machine.allocator or NOT_TOLD),
    ]  # fmt: skip


def _cores(machine: Machine) -> str:
    parts = [f"{machine.usable_cores} usable of {machine.logical_cores}"]
    if machine.physical_cores:
        parts.append(f"{machine.physical_cores} physical")
    if machine.sockets:
        parts.append(f"{machine.sockets} socket{'s' if machine.sockets > 1 else ''}")
    if len(machine.numa_nodes) > 1:
        parts.append(f"{len(machine.numa_nodes)} NUMA nodes")
    return ", ".join(parts)
