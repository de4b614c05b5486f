"""What a GPU did during the profiled steps: kernels, copies, idle time, and why it was idle."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelRow:
    """One kernel, per step, with the operation that launched it."""

    name: str
    op: str
    phase: str
    module: str
    ms: float
    share: float  # of all kernel time
    calls: float
    uses_tensor_cores: bool


@dataclass(frozen=True)
class CopyRow:
    """Copies of one kind, per step: "host to device", "device to host", "device to device"; pageable or pinned host memory."""

    kind: str
    memory: str  # "pageable", "pinned", "device"
    ms: float
    bytes: float
    calls: float


@dataclass(frozen=True)
class DeviceActivity:
    """One GPU over the profiled steps; times per step, shares of the step's wall time.

    `launch_gaps_share` is idle time that ended with a kernel launched less than 20 µs before: the device waited for the CPU
    to launch. `streams` are (stream, ms per step).
    """

    device: str
    step_ms: float
    busy_share: float
    idle_share: float
    launch_gaps_share: float
    kernels: tuple[KernelRow, ...]
    copies: tuple[CopyRow, ...]
    streams: tuple[tuple[int, float], ...]
    kernels_per_step: float
    median_kernel_us: float
    tensor_core_share: float  # of kernel time
    communication_ms: float = 0.0  # NCCL kernels
    communication_overlap: float = 0.0  # the part of it that ran beside other kernels
