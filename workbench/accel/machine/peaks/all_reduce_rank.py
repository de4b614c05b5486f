"""One rank of a measured all-reduce, on CPUs of its own: it says which, and the seconds of each turn, by size.

python -m accel.machine.peaks.all_reduce_rank <descriptor> <pid of the kernel> <the job, as JSON>
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from accel.machine.affinity import RankCpus
from accel.machine.peaks.measuring_child import Measured
from accel.processes.child_main import become_rank, begin

if TYPE_CHECKING:
    import torch

FEWEST, MOST = 3, 200  # turns of a size


def main(descriptor: int, kernel_pid: int, job: dict[str, Any]) -> None:
    channel = begin(descriptor, kernel_pid, Measured)
    become_rank()
    if job["cpus"]:
        RankCpus(job["rank"], tuple(job["cpus"])).pin()
    channel.send(Measured(_measured(job)))


def _measured(job: dict[str, Any]) -> dict[str, Any]:
    """Meet the others, then reduce each size as often as its budget allows."""
    import torch
    from torch import distributed
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    rank, ranks, patience = job["rank"], job["ranks"], timedelta(seconds=job["deadline_s"])
    device = torch.device(job["device"], rank) if job["device"] == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    store = TCPStore("127.0.0.1", job["port"], None, False, patience)
    distributed.init_process_group(job["backend"], store=store, rank=rank, world_size=ranks, timeout=patience)
    try:
        _check(ranks, device)
        seconds = {str(size): _turns(size, device, job["budget_s"]) for size in job["sizes_bytes"]}
    finally:
        distributed.destroy_process_group()
    return {"rank": rank, "cpus": _own_cpus(), "seconds": seconds}


def _check(ranks: int, device: torch.device) -> None:
    """A figure counts only where the sum is right; and the first turn opens connections."""
    import torch
    from torch import distributed

    added = torch.ones(1024, device=device)
    distributed.all_reduce(added)
    if not torch.equal(added, torch.full_like(added, float(ranks))):
        raise RuntimeError(f"the all-reduce of ones by {ranks} ranks gave {added[0].item()}")


def _turns(size_bytes: int, device: torch.device, budget_s: float) -> list[float]:
    """Seconds of each turn; the first rank says how many there are, so that all do as many."""
    import torch
    from torch import distributed

    data = torch.zeros(size_bytes // 4, dtype=torch.float32, device=device)
    slowest_s = [_turn_s(data) for _ in range(2)][-1]
    count = torch.tensor([max(FEWEST, min(MOST, int(budget_s / slowest_s)))], device=device)
    distributed.broadcast(count, src=0)
    return [_turn_s(data) for _ in range(int(count.item()))]


def _turn_s(data: torch.Tensor) -> float:
    import torch
    from torch import distributed

    started = time.perf_counter()
    distributed.all_reduce(data)
    if data.is_cuda:
        torch.cuda.synchronize()
    return max(time.perf_counter() - started, 1e-9)


def _own_cpus() -> list[int]:
    """The CPUs that this process may run on; empty where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
