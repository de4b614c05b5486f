"""A training cell of a style, with its truth written beside it: what profile, try, keep, undo, export and ddp must make of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

COMMANDS = ("profile", "try", "undo", "keep", "export", "script", "ddp")

EARLIER = """
import copy
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset
torch.manual_seed(7)
x = torch.randn(64, 6, dtype=torch.float64)
y = torch.randint(3, (64,))
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
criterion = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
"""

ROLES = "models=model optimizers=optimizer criteria=criterion loaders=loader"
PHASES = "zero_grad data forward loss backward optimizer"
FUNCTIONAL = "zero_grad data forward backward optimizer"  # a loss that is no module has no phase of its own


@dataclass(frozen=True)
class Cell:
    """One cell. The weights that it ends with are no literal: a process without accel trains them, and all else must equal those.

    `earlier` runs after `EARLIER`. `weights`: names of modules and tensors that it trains. `refused`: the command and words of
    the reason for which it cannot be, which must be true. `differs`: why ranks train other numbers here than one process does.
    """

    name: str
    cell: str
    earlier: str = ""
    steps: int = 8
    samples: int | None = 8  # a step
    phases: str = PHASES
    roles: str = ROLES
    weights: str = "model"
    plan: str = "fused_optimizer"
    ddp: str = "--batch global"
    near: float = 1e-12  # how near the weights of ranks are
    differs: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    awaits: Mapping[str, str] = field(default_factory=dict)  # faults that are known, by command
    needs: str = ""  # a library that may be missing

    @property
    def plain(self) -> str:
        """The cell as a script: without lines for IPython."""
        return "\n".join(line for line in self.cell.splitlines() if not line.startswith("%"))

    @property
    def role_names(self) -> dict[str, set[str]]:
        """Kind of object → names."""
        pairs = (each.split("=") for each in self.roles.split())
        return {kind: set(names.split(",")) for kind, names in pairs}
