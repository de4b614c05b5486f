"""What a GPU did during the profiled steps: kernels, copies, idle time, and why it was idle."""

from __future__ import annotations

import math
from dataclasses import dataclass

from accel.shown import Shown


@dataclass(frozen=True)
class KernelRow:
    """One kernel, per step, with the operation that launched it ("" where the trace does not tell).

    `uses_tensor_cores` is read from the kernel's name (see `device_work`); None where the name does not tell.
    """

    name: str
    op: str
    phase: str
    module: str
    ms: float
    share: float  # of all kernel time
    calls: float
    uses_tensor_cores: bool | None


@dataclass(frozen=True)
class KernelTotal:
    """All calls of one kernel, per step, whatever launched them; `rows` are those of each operation, phase and module."""

    rows: tuple[KernelRow, ...]

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.rows[0].name

    @property
    def ms(self) -> float:
        """Time in ms."""
        return sum(row.ms for row in self.rows)

    @property
    def share(self) -> float:
        """Of all kernel time."""
        return sum(row.share for row in self.rows)

    @property
    def calls(self) -> float:
        """Launches."""
        return sum(row.calls for row in self.rows)


@dataclass(frozen=True)
class CopyRow:
    """Copies of one kind, per step.

    `kind` is "host to device", "device to host", "device to device", "host to host"; `memory` is what the host's side
    is made of ("pageable", "pinned", "managed"), or "device" where there is none. `bytes` is 0 where the profiler does
    not tell: torch before 2.10.
    """

    kind: str
    memory: str
    ms: float
    bytes: float
    calls: float

    @property
    def gb_per_s(self) -> float:
        """10⁹ bytes a second while copying; NaN where the bytes are not known."""
        return self.bytes / self.ms / 1e6 if self.bytes and self.ms else math.nan


@dataclass(frozen=True)
class DeviceActivity(Shown):
    """One GPU over the profiled steps; times per step, shares of `step_ms`.

    >>> profile.devices[0].busy_share, profile.devices[0].copies[0].memory
    (0.41, 'pageable')

    `step_ms` is from the end of one step to the end of the next as the GPU sees them: when the CPU has come to the end
    *and* the GPU has finished what was launched until then. It is busy while a kernel, copy or fill runs on any stream.

    `launch_gaps_share` is idle time for which the CPU is to blame: what ended it was launched only after the GPU had run out of
    work (Holistic Trace Analysis calls this host wait); waiting for data is not in it. `idle_phases` says what the
    cell's own thread was doing in that time: (phase or gap, share of the step), largest first.
    `streams` are (stream, ms per step). `communication_ms` is that of kernels that exchange data between GPUs (NCCL's and
    others'), `communication_overlap` the part of it in which other kernels ran too.
    Without steps (`has_steps` is False), the whole trace counts as a step.
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
    communication_ms: float = 0.0
    communication_overlap: float = 0.0
    idle_phases: tuple[tuple[str, float], ...] = ()
    unknown_core_share: float = (
        0.0  # of kernel time: by kernels whose names do not tell whether they use tensor cores
    )
    has_steps: bool = True

    @property
    def kernels_by_name(self) -> tuple[KernelTotal, ...]:
        """Each kernel once, the most expensive first."""
        rows: dict[str, list[KernelRow]] = {}
        for row in self.kernels:
            rows.setdefault(row.name, []).append(row)
        totals = [KernelTotal(tuple(each)) for each in rows.values()]
        return tuple(sorted(totals, key=lambda total: -total.ms))
