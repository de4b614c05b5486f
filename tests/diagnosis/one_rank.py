"""A process group of this one process: DistributedDataParallel and collectives run here as they do among several."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist

from accel.diagnosis import Evidence
from tests.diagnosis.making import real

DDP = """
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters())
"""


@contextmanager
def process_group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def real_in_a_group(cell: str, setup: str = DDP) -> Evidence:
    """Run a cell as the only rank of a group and profile it."""
    with process_group():
        return real(cell, setup)
