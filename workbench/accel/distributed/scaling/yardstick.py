"""Two small measurements that say how a place trains: how fast its threads compute, and what of an exchange nothing hides."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

_PRODUCT, _PRODUCTS = 512, 6
_TURNS, _WARM_UP = 15, 3
_BATCH = 32


@dataclass(frozen=True)
class SmallTraining:
    """A small network's step under DDP: without an exchange, with one, and the bytes that it exchanges."""

    step_s: float
    exchanging_s: float
    gradient_bytes: float


def yardstick_s(device: Any = "cpu") -> float:
    """Seconds of some matrix products on this process's threads; they allocate nothing, so that memory has no part in it.

    >>> yardstick_s()
    0.016
    """
    import torch

    one, other = (torch.ones(_PRODUCT, _PRODUCT, device=device) for _ in range(2))
    result = torch.empty_like(one)

    def products() -> None:
        for _ in range(_PRODUCTS):
            torch.mm(one, other, out=result)

    return _median_s(products, is_on_gpu=one.is_cuda)


def small_training(device: Any) -> SmallTraining:
    """In a rank, at the same time as in all others: the course's CNN with and without the exchange of its gradients."""
    import torch
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10),
    ).to(device))  # fmt: skip
    images, is_on_gpu = torch.randn(_BATCH, 1, 28, 28, device=device), torch.device(device).type == "cuda"

    def step() -> None:
        model.zero_grad()
        model(images).sum().backward()

    taken = {}
    for exchanges in (True, False):
        with nullcontext() if exchanges else model.no_sync():
            taken[exchanges] = _median_s(step, is_on_gpu=is_on_gpu)
    return SmallTraining(
        taken[False], taken[True], float(sum(p.numel() * p.element_size() for p in model.parameters()))
    )  # fmt: skip


def _median_s(work: Callable[[], object], *, is_on_gpu: bool) -> float:
    return statistics.median([_taken_s(work, is_on_gpu) for _ in range(_WARM_UP + _TURNS)][_WARM_UP:])


def _taken_s(work: Callable[[], object], is_on_gpu: bool) -> float:
    import torch

    began = time.perf_counter()
    work()
    if is_on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - began
