"""The quickstart's cell, small, and a notebook that trains it on ranks."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accel.distributed.cells.run_options import RunOptions
from accel.distributed.jobs.cluster import Cluster
from accel.workbench import Workbench
from accel.workbench.ddp_options import DdpOptions
from accel.workbench.kept_ranks import registered

SETUP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
images, digits = torch.randn(96, 1, 12, 12), torch.randint(0, 10, (96,))
loader = DataLoader(TensorDataset(images, digits), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(400, 10))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
losses = []
"""
CELL = """
import time
for epoch in range({epochs}):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        {more}
"""
_numbers = itertools.count()


def cell(epochs: int = 2, more: str = "pass") -> str:
    """The training, with a line of its own in the loop."""
    return CELL.format(epochs=epochs, more=more)


@contextmanager
def opened(setup: str = SETUP) -> Iterator[Workbench]:
    """A notebook whose earlier cells were run."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(setup, registered(setup, f"<setup {next(_numbers)}>"), "exec"), namespace)
    bench = Workbench(namespace, spare_workers=0)
    try:
        yield bench
    finally:
        bench.close()


def options(cluster: Cluster | None, **run: Any) -> DdpOptions:
    """Two ranks of one thread each: on this machine, or of a cluster."""
    return DdpOptions(n=2, threads=1, cluster=cluster, run=RunOptions(**run))


def kill_rank(jobs: Path | str, rank: int) -> None:
    """As the system does where memory is short: a rank of the one job in this folder."""
    began = json.loads(next(Path(jobs).glob(f"*/ranks/{rank}.began.json")).read_text())
    os.kill(began["pid"], signal.SIGKILL)


def losses_here(source: str, **run: Any) -> list[float]:
    """Of the same cell on two ranks of this notebook."""
    with opened() as bench:
        bench.ranks.run(source, options(None, **run))
        return list(bench.namespace["losses"])
