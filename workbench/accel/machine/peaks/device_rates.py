"""The rates of one device: matrix products by dtype (in words which do not run), and bytes moved within its memory.

Products are as large as the time allows, and the best of many counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from accel.machine.peaks import timing
from accel.machine.peaks.other_work import undisturbed
from accel.machine.peaks.timing import Timed, wall

if TYPE_CHECKING:
    import torch

CPU_DTYPES = ("float32", "bfloat16", "float16", "float64", "int8")
GPU_DTYPES = ("float32", "tf32", "bfloat16", "float16", "float64", "int8", "float8_e4m3fn")
OFTEN_USED = ("float32", "tf32", "bfloat16")  # what training is held against: these get the whole budget
OTHERS_SHARE, OTHERS_SHARE_ON_GPU = 0.2, 0.5  # of the budget for every other dtype
SINCE = {"tf32": (8, 0), "float8_e4m3fn": (8, 9)}  # compute capability from which tensor cores have it
CPU_SIZES = (256, 2048)  # rows of a matrix, smallest and largest: larger ones are not faster, on a CPU
GPU_SIZES = (1024, 8192)
REPEATS = 3
IN_CACHE = 65536  # elements of each operand

Rates = tuple[tuple[str, float], ...]
Reasons = tuple[tuple[str, str], ...]


def cpu_products(threads: int) -> tuple[tuple[Rates, Reasons], bool]:
    """Operations per second of the CPU by dtype, and why some have none; and whether other work disturbed any of it.

    >>> dict(cpu_products(2)[0][0])["float32"]
    2.1e11
    """
    were_disturbed = []

    def measure(dtype: str) -> float:
        rate, disturbed = undisturbed(partial(_on_cpu, dtype), threads)
        were_disturbed.append(disturbed)
        return rate

    return each_dtype(CPU_DTYPES, measure), any(were_disturbed)


def gpu_products(
    device: str, capability: tuple[int, int], timed: Timed, sizes: tuple[int, int] = GPU_SIZES
) -> tuple[Rates, Reasons]:
    """The same of one GPU, timed by `timed`; its compute capability says what is not tried."""

    def measure(dtype: str) -> float:
        if capability < SINCE.get(dtype, (0, 0)):
            needed, has = (".".join(map(str, one)) for one in (SINCE[dtype], capability))
            raise NotImplementedError(f"needs compute capability {needed}, this GPU has {has}")
        budget_s = timing.BUDGET_S * (1.0 if dtype in OFTEN_USED else OTHERS_SHARE_ON_GPU)
        with _float32_precision({"float32": "ieee", "tf32": "tf32"}.get(dtype, "")):
            return products("float32" if dtype == "tf32" else dtype, device, timed, budget_s, sizes)

    return each_dtype(GPU_DTYPES, measure)


def each_dtype(dtypes: Iterable[str], measure: Callable[[str], float]) -> tuple[Rates, Reasons]:
    """Each rate, or the reason why that dtype does not run here; memory that runs out is the caller's to answer."""
    import torch

    rates, reasons = [], []
    for dtype in dtypes:
        try:
            rates.append((dtype, measure(dtype)))
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, AttributeError, TypeError, ValueError) as error:
            if dtype == "float32":
                raise  # every torch multiplies these: something else is amiss
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            reasons.append((dtype, first[:120]))
    return tuple(rates), tuple(reasons)


def products(
    dtype: str, device: str, timed: Timed, budget_s: float, sizes: tuple[int, int] = CPU_SIZES
) -> float:
    """Operations per second of square matrix products: of the larger sizes too, as far as the time allows.

    >>> products("float32", "cpu", wall, 0.4)
    2.1e11
    """
    rows, largest = sizes
    best, until = 0.0, time.perf_counter() + budget_s
    while True:
        multiply = _product(dtype, rows, device)
        multiply()  # maps pages, loads the kernel: of its own for each size, on a GPU
        seconds = timed(multiply)
        for _ in range(REPEATS - 1):
            if seconds < until - time.perf_counter():
                seconds = min(seconds, timed(multiply))
        best = max(best, 2.0 * rows**3 / seconds)
        left_s = until - time.perf_counter()
        if (
            rows < largest and 8 * seconds < left_s
        ):  # threads that wait for a core lose the least on large ones
            rows *= 2
        elif seconds > left_s:
            return best


def _on_cpu(dtype: str, attempt: int) -> float:
    # Where threads wait for a core, small products tell of the waiting alone: time for larger ones.
    budget_s = timing.BUDGET_S * (1.0 if attempt or dtype in OFTEN_USED else OTHERS_SHARE)
    rate = products(dtype, "cpu", wall, budget_s)
    if dtype in OFTEN_USED:
        return max(rate, _convolutions(dtype, budget_s / 2))
    if (
        dtype == "float16"
    ):  # without instructions of their own its products are slower than sums by way of float32
        return max(rate, _elementwise(dtype, budget_s / 2))
    return rate


def _product(dtype: str, rows: int, device: str) -> Callable[[], object]:
    """One product of two matrices, ready to be called. Not of one value alone: that draws less power, and a GPU clocks higher."""
    import torch

    values = torch.linspace(-1.0, 1.0, rows * rows, device=device).reshape(rows, rows)
    if dtype == "int8":
        integers, added = (
            (values * 100).to(torch.int8),
            torch.empty(rows, rows, dtype=torch.int32, device=device),
        )
        second = integers if device == "cpu" else integers.t()  # GPUs want it by columns
        return lambda: torch._int_mm(integers, second, out=added)
    if dtype.startswith("float8"):
        small, one = values.to(getattr(torch, dtype)), torch.ones((), device=device)
        return lambda: torch._scaled_mm(
            small, small.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
        )
    kind: torch.dtype = getattr(torch, dtype)
    left, result = values.to(kind), torch.empty(rows, rows, dtype=kind, device=device)
    return lambda: torch.mm(left, left, out=result)


def _convolutions(dtype: str, budget_s: float) -> float:
    """FLOP/s of a convolution on the CPU: on some, oneDNN uses wider instructions than the library of matrix products."""
    import torch

    kind: torch.dtype = getattr(torch, dtype)
    images = torch.full((16, 64, 28, 28), 0.5, dtype=kind, device="cpu")
    weight = torch.full((64, 64, 3, 3), 0.5, dtype=kind, device="cpu")
    flops = 2.0 * images.numel() * weight[0].numel()
    return _best(lambda: torch.conv2d(images, weight, padding=1), flops, budget_s)


def _elementwise(dtype: str, budget_s: float) -> float:
    """FLOP/s of a·b + c on data in the caches."""
    import torch

    values = torch.full((IN_CACHE,), 0.5, dtype=getattr(torch, dtype), device="cpu")
    result = torch.empty_like(values)
    return _best(lambda: torch.addcmul(values, values, values, out=result), 2.0 * IN_CACHE, budget_s)


def _best(work: Callable[[], object], flops: float, budget_s: float) -> float:
    best, until = 0.0, time.perf_counter() + budget_s
    while best == 0.0 or time.perf_counter() < until:
        best = max(best, flops / wall(work))
    return best


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


SHARE = 0.75  # of the budget for each level of memory
CPU_CALL_BYTES = 1 << 20  # a call on less data is over sooner than the clock ticks
GPU_CALL_BYTES = 256 << 20  # between two events: they tick in half microseconds


def moving(total_bytes: int, device: str, timed: Timed) -> float:
    """Bytes read and written per second, by a copy and by the sum of two arrays, over buffers of so many bytes in all.

    >>> moving(384 << 20, "cpu", wall)
    41.2e9
    """
    import torch

    one, other, result = torch.ones((3, max(total_bytes // 12, 1024)), dtype=torch.float32, device=device)
    moved, best, until = one.numel() * 4, 0.0, time.perf_counter() + SHARE * timing.BUDGET_S
    repeats = max(1, (CPU_CALL_BYTES if device == "cpu" else GPU_CALL_BYTES) // moved)
    copying = _repeated(lambda: result.copy_(one), repeats, device)
    adding = _repeated(lambda: torch.add(one, other, out=result), repeats, device)
    while best == 0.0 or time.perf_counter() < until:
        best = max(best, 2 * moved * repeats / timed(copying), 3 * moved * repeats / timed(adding))
    return best


def _repeated(call: Callable[[], object], times: int, device: str) -> Callable[[], object]:
    """So many calls as one; on a GPU as a graph, which starts its kernels faster than they move what a cache holds."""
    import torch

    if not device.startswith("cuda"):
        return lambda: [call() for _ in range(times)]
    call()  # loads the kernel
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    with torch.cuda.graph(graph, stream=stream):  # by itself it takes one of the first GPU
        for _ in range(times):
            call()
    return graph.replay
