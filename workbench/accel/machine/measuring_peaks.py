"""Measure the peaks of the CPU: matrix products, convolutions and copies, the best of many repeats; GPUs in a child."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from accel.machine.peaks import DevicePeaks, Peaks
from accel.machine.reading import read_machine

if TYPE_CHECKING:
    import torch

    from accel.machine.machine import Machine

BUDGET_S = 0.4  # for each rate: enough that one repeat meets no other work
MOVING = 0.75  # of that for each level of memory
UNDISTURBED = 0.75  # of the time our threads have a core; beside a busy neighbour 0.1 to 0.4 was seen
LARGEST = 2048  # rows of a matrix: larger ones are not faster, on a CPU
SMALLEST = 256
MEMORY_BYTES = 128 << 20  # larger than any cache that two cores have to themselves
CACHED_BYTES = 512 << 10  # for each thread: less than a core's own cache
CACHE_FILLED = 0.9  # of the largest cache: what holds for data that only just stays in it
CACHE_BYTES = 4 << 20  # where the system tells of no cache
MEASURING_GPUS = "accel.machine.measuring_gpus"
CHILD_S = 120.0  # importing torch and starting CUDA can take long on a busy machine


def measure_peaks() -> Peaks:
    """Measure every device, with the present number of threads; random number generators are left alone.

    >>> measure_peaks().devices[0].bytes_per_s
    41.2e9
    """
    import torch

    started = time.perf_counter()
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        cpu, cpu_share = _watched(_cpu)
    devices = [cpu, *_gpus()]
    return Peaks(
        devices=tuple(devices), torch=torch.__version__, measured=datetime.now().isoformat(timespec="seconds"),
        seconds=time.perf_counter() - started, was_busy=cpu_share < UNDISTURBED,
    )  # fmt: skip


def _watched(measure: Callable[[], DevicePeaks]) -> tuple[DevicePeaks, float]:
    """The peaks, and the share of the time in which our threads really had a core: less means that others had it."""
    import torch

    wall, own = time.perf_counter(), time.process_time()
    found = measure()
    elapsed = time.perf_counter() - wall
    return found, (time.process_time() - own) / (elapsed * torch.get_num_threads())


def _cpu() -> DevicePeaks:
    import torch

    machine, threads = read_machine(), torch.get_num_threads()
    largest = max((cache.bytes_each for cache in machine.caches), default=CACHE_BYTES)
    return DevicePeaks(
        device="cpu",
        name=machine.cpu_model,
        threads=threads,
        flops_per_s=tuple(
            (dtype, max(products(dtype, "cpu", _wall), _convolutions(dtype)))
            for dtype in ("float32", "bfloat16")
        ),
        bytes_per_s=moving(_fitting(machine.available_bytes), "cpu", _wall),
        cache_bytes=largest,
        cache_bytes_per_s=moving(int(CACHE_FILLED * largest), "cpu", _wall),
        core_cache_bytes=min(threads * _core_cache(machine), largest),
        core_cache_bytes_per_s=moving(CACHED_BYTES * threads, "cpu", _wall),
    )


def _gpus() -> list[DevicePeaks]:
    """Measured in a process of their own: here the buffers would stay in the user's allocator and raise its peak."""
    import torch

    if not torch.cuda.is_available():
        return []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        told = subprocess.run(
            [sys.executable, "-m", MEASURING_GPUS],
            env=environment,
            capture_output=True,
            check=True,
            timeout=CHILD_S,
        )
        return [DevicePeaks.from_dict(one) for one in json.loads(told.stdout)]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []  # as where its memory is full: the roofline says that there are no peaks of the device


def _core_cache(machine: Machine) -> int:
    """What each core has to itself."""
    return next((cache.bytes_each for cache in machine.caches if cache.name == "L2"), CACHED_BYTES)


def products(
    dtype: str, device: str, timed: Callable[[Callable[[], object]], float], largest: int = LARGEST
) -> float:
    """FLOP/s of square matrix products: as large as the time allows, for small ones leave cores idle."""
    import torch

    best, rows, until = 0.0, SMALLEST, time.perf_counter() + BUDGET_S
    kind: torch.dtype = getattr(torch, dtype)
    while True:
        left, result = torch.full((2, rows, rows), 0.5, dtype=kind, device=device)
        seconds = min(timed(lambda: torch.mm(left, left, out=result)) for _ in range(3))  # noqa: B023 -- called at once
        best = max(best, 2.0 * rows**3 / seconds)
        left_s = until - time.perf_counter()
        if rows < largest and 3 * 8 * seconds < left_s:
            rows *= 2
        elif 3 * seconds > left_s:
            return best


def _convolutions(dtype: str) -> float:
    """FLOP/s of a convolution on the CPU: on some, oneDNN uses wider instructions than the library of matrix products."""
    import torch

    kind: torch.dtype = getattr(torch, dtype)
    images = torch.full((16, 64, 28, 28), 0.5, dtype=kind, device="cpu")
    weight = torch.full((64, 64, 3, 3), 0.5, dtype=kind, device="cpu")
    flops = 2.0 * images.numel() * weight[0].numel()
    best, until = 0.0, time.perf_counter() + BUDGET_S / 2
    while best == 0.0 or time.perf_counter() < until:
        best = max(best, flops / _wall(lambda: torch.conv2d(images, weight, padding=1)))
    return best


def moving(total_bytes: int, device: str, timed: Callable[[Callable[[], object]], float]) -> float:
    """Bytes read and written per second, by a copy and by the sum of two arrays, over buffers of so many bytes in all."""
    import torch

    one, other, result = torch.ones((3, max(total_bytes // 12, 1024)), dtype=torch.float32, device=device)
    moved, best, until = one.numel() * 4, 0.0, time.perf_counter() + MOVING * BUDGET_S
    repeats = max(1, (1 << 20) // moved)  # a call on little data is over sooner than the clock ticks
    while best == 0.0 or time.perf_counter() < until:
        copying = timed(lambda: [result.copy_(one) for _ in range(repeats)])
        adding = timed(lambda: [torch.add(one, other, out=result) for _ in range(repeats)])
        best = max(best, 2 * moved * repeats / copying, 3 * moved * repeats / adding)
    return best


def _fitting(available_bytes: int) -> int:
    """Never more than a small part of the memory that is left."""
    return min(3 * MEMORY_BYTES, available_bytes // 16) if available_bytes else MEMORY_BYTES


def _wall(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return max(time.perf_counter() - started, 1e-9)
