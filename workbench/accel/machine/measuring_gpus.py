"""The peaks of every GPU, measured in this process and written to its standard output as JSON.

Run as `python -m accel.machine.measuring_gpus`, so that nothing of it is left in the user's process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from accel.machine.measuring_peaks import MEMORY_BYTES, moving, products
from accel.machine.peaks import DevicePeaks


def measure_gpus() -> list[DevicePeaks]:
    """Every GPU that has room to measure in.

    >>> measure_gpus()[0].bytes_per_s
    1.6e12
    """
    import torch

    with torch.no_grad():
        gpus = map(_gpu, range(torch.cuda.device_count()))
        return [gpu for gpu in gpus if gpu is not None]


def _gpu(index: int) -> DevicePeaks | None:
    """Rates of one GPU; None when its memory is too full to measure in."""
    import torch

    properties = torch.cuda.get_device_properties(index)
    cache = int(getattr(properties, "L2_cache_size", 0))
    device = f"cuda:{index}"
    try:
        with torch.cuda.device(index), torch.autocast("cuda", enabled=False):
            rates = tuple((name, _gpu_products(name, device)) for name in ("float32", "tf32", "bfloat16"))
            memory = moving(4 * MEMORY_BYTES, device, _by_events)
            cached = moving(cache // 4, device, _by_events) if cache else 0.0
    except torch.OutOfMemoryError:
        return None
    return DevicePeaks(device, properties.name, 0, rates, memory, cache, cached)


def _gpu_products(name: str, device: str) -> float:
    precision = {"float32": "ieee", "tf32": "tf32"}.get(name, "")
    with _float32_precision(precision):
        return products("float32" if precision else name, device, _by_events, largest=8192)


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


if __name__ == "__main__":
    sys.stdout.write(json.dumps([gpu.to_dict() for gpu in measure_gpus()]))
