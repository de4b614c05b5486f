"""Bytes allocated over the profiled steps (`--memory`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryPoint:
    """Bytes held by tensors at one moment of a profiled step, above what was held at the first one.

    Below zero when more was freed since than allocated: gradients of the step before, for example.
    """

    ms: float  # since the first kept step began
    bytes: int
    phase: str
    module: str


@dataclass(frozen=True)
class MemoryUse:
    """The memory curve of one device, its peak, and who held it.

    >>> print(profile.memory[0])
    cpu: peak 3.34 MiB above the start of the step, in forward of conv1; 12.1 MiB a step in 345 allocations

    `points` are at most some thousands; of more, the highest and the lowest of each stretch were kept. `peak_by` are
    (phase, module, bytes): the highest reading while that phase and module ran, largest first. `allocator` are CUDA
    allocator statistics under torch's own names, since the process began; empty on the CPU.
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

    def __str__(self) -> str:
        from accel.units import size

        where = f"{self.peak_phase} of {self.peak_module}" if self.peak_module else self.peak_phase
        peak = f"peak {size(self.peak_bytes)} above the start of the step, in {where}"
        served = (
            f"{size(self.allocated_bytes_per_step)} a step in {self.allocations_per_step:,.0f} allocations"
        )
        return f"{self.device}: {peak}; {served}"
