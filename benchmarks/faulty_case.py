"""What a cell with a fault is, for `python -m benchmarks.predictions`, and the parts that such cells share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

START = """
import torch
from torch import nn
torch.manual_seed(0)
criterion = nn.CrossEntropyLoss()
"""

LOOP = """
for x, y in batches:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""

MLP = (
    START
    + """
model = nn.Sequential(nn.Linear(256, {width}), nn.ReLU(), nn.Linear({width}, {width}), nn.ReLU(), nn.Linear({width}, 10))
optimizer = torch.optim.{optimizer}(model.parameters(), lr=1e-3)
"""
)
READY = "\nbatches = [(torch.randn({size}, 256), torch.randint(0, 10, ({size},))) for _ in range({count})]\n"


def mlp(width: int, optimizer: str = "SGD") -> str:
    """A network of three linear layers."""
    return MLP.format(width=width, optimizer=optimizer)


def ready(size: int, count: int = 20) -> str:
    """So many batches of that size for `mlp`, made before the cell."""
    return READY.format(size=size, count=count)


@dataclass(frozen=True)
class Case:
    """A cell with a fault. `mended` is the cell after the remedy, where that is an edit and not a plan.

    `is_fitted`: a figure of this cell, or of one like it, went into the ranges of its rule (the comments there tell), so that
    it says how well the ranges describe what was seen, and nothing about other cells. `environment` are variables that its
    process is started with.
    """

    name: str
    rule: str
    setup: str
    cell: str = LOOP
    mended: str = ""
    mended_setup: str = ""
    is_fitted: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
