"""Bytes allocated over the profiled steps (`--memory`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryPoint:
    """Bytes held by tensors at one moment of a profiled step, above what was held at the first one."""

    ms: float  # since the first kept step began
    bytes: int
    phase: str
    module: str


@dataclass(frozen=True)
class MemoryUse:
    """The memory curve of one device, its peak, and who held it.

    `peak_by` are (phase, module, bytes): the highest reading while that phase and module ran, largest first. `allocator`
    are CUDA allocator statistics under torch's own names; empty on the CPU.
    """

    device: str  # "cpu", "cuda:0"
    points: tuple[MemoryPoint, ...]
    peak_bytes: int
    peak_phase: str
    peak_module: str
    peak_by: tuple[tuple[str, str, int], ...]
    allocated_bytes_per_step: float  # the sum of all allocations: what the allocator has to serve
    allocations_per_step: float
    allocator: tuple[tuple[str, int], ...] = ()
