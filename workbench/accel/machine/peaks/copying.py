"""Copies between devices: the best rate of a large one, the shortest time of a small one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING

from accel.machine.peaks import timing
from accel.machine.peaks.copies import Copies, CopyPeak

if TYPE_CHECKING:
    import torch

LARGE_BYTES = 64 << 20
SMALL_BYTES = 4 << 10
SHARE = 0.25  # of the budget for each direction and kind of memory
SMALL_REPEATS = 50
HOST_MEMORY = ("pinned", "pageable")
Wait = Callable[[], object]


def new_buffer(size_bytes: int, place: str) -> torch.Tensor:
    """So many bytes on a GPU, or in the host's "pinned" or "pageable" memory; every page of them is there already."""
    import torch

    is_host = place in HOST_MEMORY
    return torch.zeros(
        size_bytes, dtype=torch.uint8, device="cpu" if is_host else place, pin_memory=place == "pinned"
    )


def host_copies(
    device: str, wait: Wait, *, buffer: Callable[[int, str], torch.Tensor] = new_buffer
) -> list[CopyPeak]:
    """Between host and one device, both ways, by pinned and by pageable memory; `wait` returns when the device is done.

    >>> host_copies("cuda:0", torch.cuda.synchronize)[0]
    CopyPeak(source='cpu', target='cuda:0', bytes_per_s=2.5e10, small_us=7.9, memory='pinned', route='')
    """
    there = buffer(LARGE_BYTES, device)
    found = []
    for memory in HOST_MEMORY:
        here = buffer(LARGE_BYTES, memory)
        for source, target, names in ((here, there, ("cpu", device)), (there, here, (device, "cpu"))):
            found.append(CopyPeak(*names, *_measured(source, target, wait), memory=memory))
    return found


def peer_copies(
    devices: Iterable[str],
    wait_for: Callable[[str, str], object],
    can_access: Callable[[str, str], bool],
    *,
    buffer: Callable[[int, str], torch.Tensor] = new_buffer,
) -> Copies:
    """Between every two GPUs, both ways, and whether one reads the other's memory or the data goes through the host.

    >>> peer_copies(["cuda:0", "cuda:1"], wait_for, torch.cuda.can_device_access_peer).rate("cuda:0", "cuda:1")
    2.4e11
    """
    import torch

    found, notes = [], []
    for source, target in permutations(devices, 2):
        try:
            one, other = buffer(LARGE_BYTES, source), buffer(LARGE_BYTES, target)
        except torch.OutOfMemoryError:
            notes.append(f"{source} to {target}: too little memory is free to measure in.")
            continue
        route = "peer access" if can_access(target, source) else "through the host"
        found.append(
            CopyPeak(source, target, *_measured(one, other, partial(wait_for, source, target)), route=route)
        )
    return Copies(tuple(found), tuple(notes))


def _measured(source: torch.Tensor, target: torch.Tensor, wait: Wait) -> tuple[float, float]:
    """Bytes/s of the whole buffer, and microseconds of a small part of it; from the call until the data is there."""
    until = time.perf_counter() + SHARE * timing.BUDGET_S
    best_s = _copy_s(source, target, wait)  # the first one maps pages, and opens access between GPUs
    best_s = _copy_s(source, target, wait)
    while time.perf_counter() < until:
        best_s = min(best_s, _copy_s(source, target, wait))
    small_s = min(_copy_s(source[:SMALL_BYTES], target[:SMALL_BYTES], wait) for _ in range(SMALL_REPEATS))
    return source.numel() / best_s, small_s * 1e6


def _copy_s(source: torch.Tensor, target: torch.Tensor, wait: Wait) -> float:
    wait()
    started = time.perf_counter()
    target.copy_(source, non_blocking=True)
    wait()
    return max(time.perf_counter() - started, 1e-9)
