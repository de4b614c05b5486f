"""A small training set-up, and one way to run a cell under capture, shared by the tests of this folder."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from accel.workload import CellCapture, Recording, Workload

SETUP = """
import torch, copy
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
X, Y = torch.randn(24, 8), torch.randint(0, 3, (24,))
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(X, Y), batch_size=4)
"""


def notebook(setup: str = "") -> dict[str, Any]:
    """A namespace as earlier cells left it: six batches of four samples, a model, SGD, a criterion."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(SETUP + textwrap.dedent(setup), namespace)
    return namespace


def capture(
    cell: str,
    namespace: dict[str, Any],
    *,
    raises: type[BaseException] | None = None,
    ready: Callable[[CellCapture], None] | None = None,
) -> tuple[Workload, Recording]:
    """Run a cell as a notebook would, under capture; `ready` sees the capture before it starts."""
    source = textwrap.dedent(cell)
    captured = CellCapture(source, source, namespace)
    tree = captured.transform(ast.parse(source))
    if ready is not None:
        ready(captured)
    with suppress(*filter(None, [raises])), captured:
        exec(compile(tree, captured.filename, "exec"), namespace)
    return captured.finish()
