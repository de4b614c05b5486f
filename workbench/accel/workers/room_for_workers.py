"""How many workers can hold a copy of the training at once: in memory, and on the GPU where it trains on one."""

from __future__ import annotations

import psutil

MOST = 12  # importing takes CPU, and more variants make turns long
SHARE = 0.7  # of the free memory; the rest is for what steps need now and then


def room_for_workers(device: str) -> int:
    """At least two (a baseline and a plan), at most twelve; each is taken to need what this process holds itself.

    >>> 2 <= room_for_workers("cpu") <= MOST
    True
    """
    fits = [SHARE * psutil.virtual_memory().available / max(psutil.Process().memory_info().rss, 1)]
    if device.startswith("cuda"):
        import torch

        free_bytes, _ = torch.cuda.mem_get_info(device)
        fits.append(SHARE * free_bytes / max(torch.cuda.max_memory_reserved(device), 1))
    return max(2, min(MOST, *map(int, fits)))
