"""The most memory that a part of a process's life needed: of its tensors, on whatever device, and of the process itself."""

from __future__ import annotations

import contextlib
from pathlib import Path

from accel.profiling.tensor_peak import TensorPeak

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_FROM_HERE_ON = "5"  # what clear_refs takes to begin a new peak (proc(5))


class PeakMemory:
    """The peak since it was made.

    >>> peak = PeakMemory("cpu")
    >>> tensor = torch.ones(1 << 20)
    >>> peak.resident_bytes >= 4 << 20
    True

    `tensor_bytes` is exact: on a GPU what torch's allocator gave out, on a CPU what `tensors` counted in the steps that it saw.
    `resident_bytes` are pages beyond what the process held before, of which an allocator may keep some that are free. Loader
    workers are processes of their own and do not count.
    """

    def __init__(self, device: str, *, counts_tensors: bool = True) -> None:
        self._device, self._is_cuda = device, device.startswith("cuda")
        on_cpu = device in ("", "cpu")
        self.tensors = TensorPeak() if on_cpu and counts_tensors else None
        if self._is_cuda:
            import torch

            torch.cuda.reset_peak_memory_stats(device)
        with contextlib.suppress(OSError):  # where it is not allowed, the peak is that of the whole life
            _RESET.write_text(_FROM_HERE_ON)
        self._held = _line("VmRSS")

    @property
    def resident_bytes(self) -> int:
        """Of this process in main memory; 0 where it trains on a GPU, or the system does not tell."""
        return 0 if self._is_cuda else max(_line("VmHWM") - self._held, 0)

    @property
    def tensor_bytes(self) -> int:
        """Of tensors on the device that it trains on; 0 where they were not counted."""
        if self._is_cuda:
            import torch

            return int(torch.cuda.max_memory_allocated(self._device))
        return self.tensors.bytes if self.tensors is not None else 0


def _line(name: str) -> int:
    """Bytes that a line of the process's status names."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)
