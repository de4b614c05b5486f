"""What a call builds and uses itself: the lines stand where it is there and not yet used, or a note says that they could not."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from accel.exporting.export import Export, export_cell
from accel.plans.plan import Plan
from accel.workload.capture import CellCapture

EARLIER = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
data = TensorDataset(torch.randn(24, 6), torch.randint(3, (24,)))
loader = DataLoader(data, batch_size=12)

def make():
    return torch.optim.Adam(net.parameters(), 0.05)
def epoch(optimizer, loader):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()

class Late:
    def __init__(self): self.optimizer = self.loader = None
    def fit(self):
        self.optimizer, self.loader = make(), DataLoader(data, batch_size=12)
        epoch(self.optimizer, self.loader)
class Early:
    def __init__(self): self.optimizer, self.loader = make(), DataLoader(data, batch_size=12)
    def fit(self): epoch(self.optimizer, self.loader)
def setup():
    global optimizer
    optimizer = make()
def whole():
    early = Early()
    early.fit()
    return early
before = Late()
"""
INSIDE = {
    "in fit()": "late = Late()\nlate.fit()",
    "in fit() of an object from before": "before.fit()",
    "in a loop, anew in each turn": "late = Late()\nfor _ in range(2):\n    late.fit()",
    "in a method of the cell's own class": "class Own(Late):\n    pass\nown = Own()\nown.fit()",
    "a global of a function": "optimizer = None\nsetup()\nepoch(optimizer, loader)",
    "built and trained in one statement": "early = whole()",
    "built and trained in a function of the cell": (
        "def main():\n    early = Early()\n    early.fit()\n    return early\nearly = main()"
    ),
}  # fmt: skip
WRITTEN = {
    "in __init__": ("early = Early()\nearly.fit()", "early = Early()"),
    "an attribute set in the cell": (
        "early = Early()\nearly.optimizer = make()\nearly.fit()", "early.optimizer = make()",
    ),
    "built before it gets its name": (
        "held = {'it': make()}\noptimizer = held['it']\nepoch(optimizer, loader)", "optimizer = held['it']",
    ),
    "a function of the cell that only builds": (
        "def own():\n    return make()\noptimizer = own()\nepoch(optimizer, loader)", "optimizer = own()",
    ),
}  # fmt: skip


def exported(cell: str, plan: str) -> tuple[Export, dict[str, Any]]:
    """The export, and the notebook after it ran anew without accel."""
    notebook: dict[str, Any] = {"__name__": "__main__"}
    exec(EARLIER, notebook)
    capture = CellCapture(cell, cell, notebook)
    with capture:
        exec(compile(capture.transform(ast.parse(cell)), capture.filename, "exec"), notebook)
    export = export_cell(capture.finish()[0], Plan.parse(plan))
    anew: dict[str, Any] = {"__name__": "__main__"}
    exec(EARLIER, anew)
    exec(export.code, anew)
    return export, anew


@pytest.mark.parametrize("cell", INSIDE.values(), ids=INSIDE)
def test_what_a_call_builds_and_uses_is_noted_with_its_lines(cell: str) -> None:
    export, _ = exported(cell, "gradient_accumulation")
    assert not export.is_complete
    assert "_step_every(" in export.notes[0].lines
    assert "builds it" in export.notes[0].reason
    assert "step_every" not in export.code


@pytest.mark.parametrize(("cell", "line"), WRITTEN.values(), ids=WRITTEN)
def test_what_the_cell_can_name_before_it_is_used_is_changed_there(cell: str, line: str) -> None:
    export, notebook = exported(cell, "gradient_accumulation")
    assert export.is_complete
    assert export.code.index("_step_every(") > export.code.index(f"{line}\n# gradient_accumulation")
    optimizer = notebook["early"].optimizer if "early" in notebook else notebook["optimizer"]
    assert {int(state["step"]) for state in optimizer.state.values()} == {1}


def test_unnamed_objects_of_one_class_get_one_note_that_names_the_placeholder() -> None:
    export, _ = exported(
        "def main():\n    for _ in range(3):\n        epoch(make(), loader)\nmain()", "fused_optimizer"
    )
    (note,) = export.notes
    assert (
        "the cell uses Adam_1 (accel's placeholder for 3 Adam objects without a variable name)" in note.reason
    )
    assert note.reason.endswith("and replace Adam_1 with the name that your code uses there:")
