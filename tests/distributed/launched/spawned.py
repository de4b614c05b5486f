"""Processes that the script starts itself, by mp.spawn, and that meet by a file."""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

world_size = 2
torch.manual_seed(11)
model = nn.Linear(7, 2).double()
inputs, targets = torch.randn(40, 7).double(), torch.randn(40, 2).double()


def train(rank, world_size, meeting_place):
    dist.init_process_group("gloo", init_method=f"file://{meeting_place}", rank=rank, world_size=world_size)
    ddp = DDP(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    for step in range(5):
        own = slice(step * 8 + rank * 4, step * 8 + rank * 4 + 4)
        optimizer.zero_grad()
        (ddp(inputs[own]) - targets[own]).pow(2).mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(
        train,
        args=(world_size, os.path.join(tempfile.gettempdir(), f"meet-{os.getppid()}")),
        nprocs=world_size,
        join=True,
    )
