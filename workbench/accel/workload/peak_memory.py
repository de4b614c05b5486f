"""The most memory that a part of a process's life needed: of its GPU where it trains on one, else of the process itself."""

from __future__ import annotations

import contextlib
from pathlib import Path

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_FROM_HERE_ON = "5"  # what clear_refs takes to begin a new peak (proc(5))


class PeakMemory:
    """The peak since it was made, beyond what the process held then.

    >>> peak = PeakMemory("cpu")
    >>> tensor = torch.ones(1 << 20)
    >>> peak.bytes >= 4 << 20
    True

    On a CPU this counts resident pages; an allocator may keep pages that are free. Loader workers are processes of their own
    and do not count. On a GPU it is what torch's allocator gave out, weights included.
    """

    def __init__(self, device: str) -> None:
        self._device, self._is_cuda, self._held = device, device.startswith("cuda"), 0
        if self._is_cuda:
            import torch

            torch.cuda.reset_peak_memory_stats(device)
            return
        with contextlib.suppress(OSError):  # where it is not allowed, the peak is that of the whole life
            _RESET.write_text(_FROM_HERE_ON)
        self._held = _line("VmRSS")

    @property
    def bytes(self) -> int:
        """So far; 0 where the system does not tell."""
        if self._is_cuda:
            import torch

            return int(torch.cuda.max_memory_allocated(self._device))
        return max(_line("VmHWM") - self._held, 0)


def _line(name: str) -> int:
    """Bytes that a line of the process's status names."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)
