"""How a Machine looks: rows of (what, value), group by group in reading order."""

from __future__ import annotations

from accel import html_parts
from accel.machine.machine import Machine, Rows
from accel.views.machine.gpu_rows import gpu_rows
from accel.views.machine.hardware_rows import NOT_REPORTED, memory_rows, processor_rows


def text(machine: Machine) -> str:
    """Its line, then the groups with their values in one column."""
    width = max(len(what) for what, _ in machine.facts)
    lines = [machine.line]
    for group, rows in machine.groups:
        lines += ["", group, *(f"  {what:<{width}}  {value}" for what, value in rows)]
    return "\n".join(lines)


def html(machine: Machine) -> str:
    """One table; its first column names each group once."""
    rows = [
        (html_parts.Markup(f"<b>{html_parts.text(group)}</b>") if first else "", *row)
        for group, group_rows in machine.groups
        for first, row in zip([True] + [False] * len(group_rows), group_rows, strict=False)
    ]
    table = html_parts.table(["part", "what", "this machine"], rows)
    return html_parts.block(table, html_parts.note(machine.line))


def groups_of(machine: Machine) -> list[tuple[str, Rows]]:
    """(group, its rows); a group without rows is left out.

    >>> groups_of(accel.machine())[0][0]
    'Processor'
    """
    groups = [
        ("Processor", processor_rows(machine)),
        ("Memory", memory_rows(machine)),
        ("GPUs", _gpus(machine)),
        ("Software", _software(machine)),
        ("Unknown", list(machine.unknown)),
    ]
    return [(name, rows) for name, rows in groups if rows]


def _gpus(machine: Machine) -> Rows:
    hidden = [("Hidden from CUDA", why) for why in machine.hidden_gpus]
    if not machine.gpus and not hidden and machine.software.why_no_driver:
        return [("GPUs", f"none: {machine.software.why_no_driver}")]
    return gpu_rows(machine.gpus, is_nvidia="rocm" not in (machine.torch or "")) + hidden


def _software(machine: Machine) -> Rows:
    return [
        ("System", f"{machine.os} {machine.os_release}, Python {machine.python}"),
        ("torch", f"{machine.torch or 'missing'}, torchvision {machine.torchvision or 'missing'}"),
        ("Torch threads", "torch is not loaded" if machine.torch_threads is None else str(machine.torch_threads)),
        ("C compiler", machine.c_compiler or "none on PATH: torch.compile cannot build kernels"),
        ("Python.h", machine.python_header or "missing: torch.compile cannot build kernels"),
        ("OpenMP runtime", machine.openmp_runtime or "none loaded"),
        ("Memory allocator", machine.allocator or NOT_REPORTED),
        *machine.software.facts,
    ]  # fmt: skip
