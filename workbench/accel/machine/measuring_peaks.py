"""Measure the peaks of the CPU and of each GPU: matrix products, convolutions and copies, the best of many repeats."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from accel.machine.peaks import DevicePeaks, Peaks
from accel.machine.reading import read_machine

if TYPE_CHECKING:
    import torch

BUDGET_S = 0.4  # for each rate: enough that one repeat meets no other work
UNDISTURBED = 0.75  # of the time our threads have a core; beside a busy neighbour 0.1 to 0.4 was seen
LARGEST = 2048  # rows of a matrix: larger ones are not faster, on a CPU
SMALLEST = 256
MEMORY_BYTES = 128 << 20  # larger than any cache that two cores have to themselves
CACHED_BYTES = 512 << 10  # for each thread: less than a core's own cache
CACHE_BYTES = 4 << 20  # where the system tells of no cache


def measure_peaks() -> Peaks:
    """Measure every device, with the present number of threads; random number generators are left alone.

    >>> measure_peaks().devices[0].bytes_per_s
    41.2e9
    """
    import torch

    started = time.perf_counter()
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        cpu, cpu_share = _watched(_cpu)
        gpus = map(_gpu, range(torch.cuda.device_count()))
        devices = [cpu, *(gpu for gpu in gpus if gpu is not None)]
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
    caches = {cache.name: cache.bytes_each for cache in machine.caches}
    return DevicePeaks(
        device="cpu",
        name=machine.cpu_model,
        threads=threads,
        flops_per_s=tuple(
            (dtype, max(_products(dtype, "cpu", _wall), _convolutions(dtype)))
            for dtype in ("float32", "bfloat16")
        ),
        bytes_per_s=_moving(_fitting(machine.available_bytes), "cpu", _wall),
        cache_bytes=max(caches.values(), default=CACHE_BYTES),
        cache_bytes_per_s=_moving(CACHED_BYTES * threads, "cpu", _wall),
    )


def _gpu(index: int) -> DevicePeaks | None:
    """Rates of one GPU; None when its memory is too full to measure in."""
    import torch

    properties = torch.cuda.get_device_properties(index)
    cache = int(getattr(properties, "L2_cache_size", 0))
    device = f"cuda:{index}"
    try:
        with torch.cuda.device(index), torch.autocast("cuda", enabled=False):
            rates = tuple((name, _gpu_products(name, device)) for name in ("float32", "tf32", "bfloat16"))
            memory = _moving(4 * MEMORY_BYTES, device, _by_events)
            cached = _moving(cache // 4, device, _by_events) if cache else 0.0
    except torch.OutOfMemoryError:
        return None
    return DevicePeaks(device, properties.name, 0, rates, memory, cache, cached)


def _gpu_products(name: str, device: str) -> float:
    precision = {"float32": "ieee", "tf32": "tf32"}.get(name, "")
    with _float32_precision(precision):
        return _products("float32" if precision else name, device, _by_events, largest=8192)


def _products(
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


def _moving(total_bytes: int, device: str, timed: Callable[[Callable[[], object]], float]) -> float:
    """Bytes read and written per second, by a copy and by the sum of two arrays, over buffers of so many bytes in all."""
    import torch

    one, other, result = torch.ones((3, max(total_bytes // 12, 1024)), dtype=torch.float32, device=device)
    moved, best, until = one.numel() * 4, 0.0, time.perf_counter() + BUDGET_S
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


def _by_events(work: Callable[[], object]) -> float:
    """Timed on the GPU itself: kernels run on after the call that launched them."""
    import torch

    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    before.record()
    work()
    after.record()
    after.synchronize()
    return max(float(before.elapsed_time(after)) / 1e3, 1e-9)


@contextmanager
def _float32_precision(precision: str) -> Iterator[None]:
    """float32 matrix products with tensor cores ("tf32") or without ("ieee"), for a while."""
    import torch

    settings = torch.backends.cuda.matmul
    name = "fp32_precision" if hasattr(settings, "fp32_precision") else "allow_tf32"  # new from torch 2.9
    before = getattr(settings, name)
    if precision:
        setattr(settings, name, precision if name == "fp32_precision" else precision == "tf32")
    try:
        yield
    finally:
        setattr(settings, name, before)
