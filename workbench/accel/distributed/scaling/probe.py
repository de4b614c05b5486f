"""What a rank finds of its host and of the way to the others: interfaces, and all-reduces measured between all of them."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from typing import Any

from accel.distributed.scaling.yardstick import SmallTraining, small_training, yardstick_s

SIZES_BYTES = (1 << 10, 1 << 16, 1 << 20, 16 << 20)
_TURNS, _LONGEST_S = 15, 1.0  # of a size


@dataclass(frozen=True)
class Probed:
    """One rank: where it is, over which interface it talks, and the seconds of all-reduces by size."""

    rank: int
    host: str
    interface: str
    interfaces: tuple[dict[str, Any], ...]
    all_reduce_s: tuple[tuple[int, float], ...]
    yardstick_s: float  # of all ranks at the same time, as what follows
    training: SmallTraining
    is_on_gpu: bool = False


def probe() -> Probed:
    """In a rank: measure; the first rank says how often, so that all do the same.

    >>> run_function(ranks, probe)[0].host
    'node1'
    """
    import torch
    import torch.distributed as dist

    from accel.machine.network_interfaces import network_interfaces

    device = torch.device("cuda", 0) if dist.get_backend() == "nccl" else torch.device("cpu")
    found = tuple((size, _median_s(size, device)) for size in SIZES_BYTES)
    dist.barrier()
    return Probed(
        dist.get_rank(), socket.gethostname(), os.environ.get("GLOO_SOCKET_IFNAME", ""),
        tuple(each.to_dict() for each in network_interfaces()), found, yardstick_s(device),
        small_training(device), device.type == "cuda",
    )  # fmt: skip


def _median_s(size_bytes: int, device: Any) -> float:
    import statistics

    import torch
    import torch.distributed as dist

    data = torch.zeros(size_bytes // 4, device=device)
    first_s = max(_turn_s(data) for _ in range(2))
    turns = torch.tensor([max(3, min(_TURNS, int(_LONGEST_S / first_s)))], device=device)
    dist.broadcast(turns, src=0)
    return statistics.median(_turn_s(data) for _ in range(int(turns.item())))


def _turn_s(data: Any) -> float:
    import torch
    import torch.distributed as dist

    dist.barrier()
    began = time.perf_counter()
    dist.all_reduce(data)
    if data.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - began
