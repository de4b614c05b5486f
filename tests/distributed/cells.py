"""Cells to run twice: in one process, as the user would, and on ranks. In float64, so that only real differences show."""

from __future__ import annotations

import itertools
import linecache
from typing import Any

from accel.distributed.cells.ddp_result import DdpResult
from accel.distributed.cells.run_cell import CellRun
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.ranks.rank_pool import RankPool

EARLIER = """
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, WeightedRandomSampler
torch.manual_seed(7)
x = torch.randn(50, 6, dtype=torch.float64)
y = torch.randint(3, (50,))
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
criterion = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
"""

TRAIN = """
for epoch in range(2):
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
"""

_numbers = itertools.count()


def notebook(more: str = "", earlier: str = EARLIER) -> dict[str, Any]:
    """The variables of a notebook whose earlier cells were run."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    source = earlier + more
    filename = f"<cell {next(_numbers)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), namespace)
    return namespace


def alone(cell: str, more: str = "") -> dict[str, Any]:
    """What the cell makes of them in one process."""
    namespace = notebook(more)
    exec(compile(cell, "<cell>", "exec"), namespace)
    return namespace


def on_ranks(
    pool: RankPool, cell: str, more: str = "", earlier: str = EARLIER, **options: Any
) -> tuple[dict[str, Any], DdpResult]:
    """The same, on the ranks; a batch is one process's batch, shared out, where nothing else is said."""
    namespace = notebook(more, earlier)
    options.setdefault("batch", "global")
    options.setdefault("timeout_s", 60.0)
    result = CellRun(pool, cell, namespace, RunOptions(**options), filename="<cell>").go()
    return namespace, result


def difference(one: Any, other: Any) -> float:
    """The largest difference between two models' parameters, or two tensors, or lists of them."""
    import torch

    if isinstance(one, torch.nn.Module):
        return difference(list(one.state_dict().values()), list(other.state_dict().values()))
    if isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        return max((difference(a, b) for a, b in zip(one, other, strict=True)), default=0.0)
    return float((torch.as_tensor(one).double() - torch.as_tensor(other).double()).abs().max())
