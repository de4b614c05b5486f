"""What the CUDA caching allocator says of itself, for the report on memory."""

from __future__ import annotations

import sys
from collections.abc import Mapping

# Of torch.cuda.memory_stats(), what tells a full, a fragmented or a struggling allocator.
TOLD = (
    "allocated_bytes.all.current", "allocated_bytes.all.peak", "reserved_bytes.all.current", "reserved_bytes.all.peak",
    "active_bytes.all.peak", "inactive_split_bytes.all.peak", "num_alloc_retries", "num_ooms", "num_device_alloc",
    "num_device_free",
)  # fmt: skip


def allocator_statistics(device: str) -> tuple[tuple[str, int], ...]:
    """Name and value of each statistic, for a device as "cuda:0"; empty where there is no such allocator.

    >>> dict(allocator_statistics("cuda:0"))["allocated_bytes.all.peak"]  # as torch.cuda.max_memory_allocated()
    1263616

    Peaks are since the process began, or since the user reset them: resetting is the user's to do.
    """
    torch = sys.modules.get("torch")
    if torch is None or not device.startswith("cuda:") or not torch.cuda.is_initialized():
        return ()
    return told_statistics(torch.cuda.memory_stats(device))


def told_statistics(statistics: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Those worth telling; older versions of torch know fewer."""
    return tuple((name, int(statistics[name])) for name in TOLD if name in statistics)
