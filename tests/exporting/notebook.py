"""A notebook in miniature: earlier cells, the training cell, and the ways to run it that must agree."""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from accel.exporting.export import Export, export_cell
from accel.plans.live_plan import LivePlan
from accel.plans.plan import Plan
from accel.workload.workload import Role, Workload, look_up

SETUP = """
import torch
from torch import nn

torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.head = nn.Linear(4 * 64, 3)
    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).flatten(1))

data = torch.utils.data.TensorDataset(torch.randn(16, 1, 8, 8), torch.randint(3, (16,)))
criterion = nn.CrossEntropyLoss()
losses = []
"""
OBJECTS = """
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
"""


@dataclass
class Notebook:
    """`earlier` runs first, `cell` trains. `roles`: kind → names of what it uses; `built`: those it builds."""

    cell: str
    earlier: str = SETUP + OBJECTS
    roles: dict[str, list[str]] = field(
        default_factory=lambda: {"models": ["model"], "optimizers": ["optimizer"], "loaders": ["loader"]}
    )
    built: tuple[str, ...] = ()

    def export(self, plan: str) -> Export:
        """What the cell exports to, after it ran once unchanged."""
        namespace = self.started()
        execute(self.cell, namespace)
        return export_cell(self.workload(namespace), Plan.parse(plan))

    def run_live(self, plan: str) -> dict[str, Any]:
        """The cell itself under the live plan, from the state the earlier cells left."""
        profiled = self.started()
        execute(self.cell, profiled)  # so that objects which the cell builds are known by name
        namespace = self.started()
        for name in self.built:
            namespace.pop(name, None)
        workload = self.workload(namespace, seen=profiled)
        live = LivePlan(workload)
        with ExitStack() as stack:
            live.keep(Plan.parse(plan))
            stack.callback(live.undo)
            execute(self.cell, namespace)
            namespace["losses"] = [float(loss) for loss in namespace["losses"]]
        return namespace

    def run_plain(self, code: str) -> dict[str, Any]:
        """Exported code, from the same state, without accel."""
        namespace = self.started()
        execute(code, namespace)
        namespace["losses"] = [float(loss) for loss in namespace["losses"]]
        return namespace

    def started(self) -> dict[str, Any]:
        """The notebook after its earlier cells."""
        namespace: dict[str, Any] = {"__name__": "__main__"}
        execute(self.earlier, namespace)
        return namespace

    def workload(self, namespace: dict[str, Any], seen: dict[str, Any] | None = None) -> Workload:
        """The workload as profile would remember it."""
        roles = [
            Role(
                kind,
                name,
                name in self.built,
                weakref.ref(look_up(seen if seen and name in self.built else namespace, name)),
            )  # type: ignore[arg-type]
            for kind, names in self.roles.items()
            for name in names
        ]
        return Workload(
            cell=self.cell, source=self.cell, filename="<cell>", namespace=namespace, reads=(), writes=(),
            roles=tuple(roles), boundary="optimizer", accumulation=1, steps=4, step_ms=1.0, samples_per_step=4,
        )  # fmt: skip


def execute(code: str, namespace: dict[str, Any]) -> None:
    """Run code in a namespace."""
    namespace.setdefault("get_ipython", lambda: None)  # a `%matplotlib inline` has nothing to do here
    python = code.replace("%matplotlib inline", "get_ipython()")
    exec(compile(python, "<cell>", "exec"), namespace)


def parameters(namespace: dict[str, Any], name: str = "model") -> list[torch.Tensor]:
    """A model's weights after the run."""
    return [parameter.detach().clone() for parameter in namespace[name].parameters()]
