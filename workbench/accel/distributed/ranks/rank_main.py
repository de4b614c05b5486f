"""A rank: a fresh interpreter on CPUs of its own, that imports torch and runs what it is sent, again and again.

    python -m accel.distributed.ranks.rank_main <descriptor of its socket> <pid of the kernel> <rank> <its CPUs, as 0-3>

With the word "private", the disk is private in it. With "alone", each run is the first step of one process, taken in a child
that is forked for it. Its CPUs are set before torch is imported, for torch counts its threads then.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import Any

from accel.distributed.ranks.rank_freshness import Freshness
from accel.distributed.ranks.rank_messages import Meet, RankReady, RunRequest, StepTaken, ToRank
from accel.distributed.ranks.rank_page import RankPage
from accel.machine.affinity.allocation import RankCpus
from accel.machine.cpu import parse_cpu_list
from accel.private_disk import PrivateDisk
from accel.processes import child_main
from accel.processes.channel import Channel, Closed
from accel.processes.child_main import become_rank, import_torch, say_hello
from accel.processes.kernel_folder import own_folder
from accel.workload.memory_file import MemoryFile


def main(descriptor: int, kernel_pid: int, rank: int, cpus: str, *words: str) -> None:
    disk = PrivateDisk(own_folder()) if "private" in words else None
    channel = begin(descriptor, kernel_pid, rank, cpus, ToRank)
    from accel.distributed.cells import run_in_rank as running
    from accel.distributed.first_step.one_process import OneProcess

    alone = OneProcess() if "alone" in words else None
    say_hello(channel)
    page, freshness = None, None
    with contextlib.suppress(Closed):
        while True:
            message, blob, given = channel.receive()
            if isinstance(message, Meet) and given is not None:
                if page is not None:
                    page.close()
                page = RankPage(message.world_size, given)
                if alone is not None:  # asking for a GPU here would spoil the fork
                    channel.send(RankReady(cpus=[], threads=0, device="cpu"))
                    continue
                channel.send(read_back(freshness.why_not_again() if freshness is not None else ""))
                freshness = freshness or Freshness()
            elif isinstance(message, RunRequest) and given is not None and alone is not None:
                alone.take(message, blob, MemoryFile(given))
                channel.send(StepTaken())
                alone.learn(is_wanted=lambda: channel.has_more)
            elif isinstance(message, RunRequest) and given is not None and page is not None:
                running.run_in_rank(channel, message, blob, MemoryFile(given), page, rank, disk)
                if freshness is not None:
                    freshness.look()


def begin(descriptor: int, kernel_pid: int, rank: int, cpus: str, incoming: Any) -> Channel:
    """What every rank does first, after what every child does: take its CPUs, import torch. Gives its channel."""
    channel = child_main.begin(descriptor, kernel_pid, incoming)
    become_rank()
    if cpus:
        RankCpus(rank, parse_cpu_list(cpus)).pin()
    import_torch(in_background=False)
    for name in ("torch.distributed", "torch.nn.parallel"):
        importlib.import_module(name)
    return channel


def read_back(stale: str = "") -> RankReady:
    """What the rank has: CPUs, threads and device."""
    import torch

    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return RankReady(cpus=cpus, threads=torch.get_num_threads(), device=device, stale=stale)


if __name__ == "__main__":
    sys.modules["accel.distributed.ranks.rank_main"] = sys.modules["__main__"]
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
