"""Every entry, in cells of several shapes: the export trains as the kept plan does, uses all that it writes, binds no name
of the user's.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import symtable
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from notebook import Notebook, execute
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from accel.accelerations import CATALOGUE
from accel.accelerations.started import Started
from accel.accelerations.steady_allocator import fix_thresholds
from accel.plans.live_plan import LivePlan
from accel.plans.plan import Plan
from accel.workload.capture import CellCapture
from accel.workload.read_backs import ReadBack
from accel.workload.workload import Workload, look_up

SETUP = """
import numpy as np
import torch
from PIL import Image
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

torch.manual_seed(0)

class Pictures(Dataset):
    def __init__(self, transform):
        self.pixels = np.random.default_rng(0).integers(0, 256, (16, 12, 12), dtype=np.uint8)
        self.transform = transform
    def __len__(self):
        return 16
    def __getitem__(self, i):
        return self.transform(Image.fromarray(self.pixels[i])), i % 3

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
    def forward(self, x):
        return nn.functional.relu(self.norm(self.conv(x)))

def build():
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), Block(), Block(), nn.Flatten(), nn.Linear(4 * 64, 3))

steps = [transforms.Resize(8), transforms.RandomRotation(20), transforms.ToTensor(), transforms.Normalize(0.5, 0.5)]
data = Pictures(transforms.Compose(steps))
criterion = nn.CrossEntropyLoss()
losses = []
"""
OBJECTS = """
model = build()
optimizer = optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(data, batch_size=4, shuffle=True)
"""
LOOP = """
total = 0.0
for images, labels in loader:
    optimizer.zero_grad(set_to_none=False)
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
    total += loss.item()
losses.append(total)
model.eval()
losses.append(model(images).sum().item())
"""
TRAIN = "def train(model, loader, optimizer):" + LOOP.replace("\n", "\n    ")
TRAINER = """
class Trainer:
    def __init__(self, net):
        self.net = net
        self.loader = DataLoader(data, batch_size=4, shuffle=True)
        self.optimizer = optim.Adam(net.parameters(), lr=1e-2)
    def fit(self):
        train(self.net, self.loader, self.optimizer)
"""
BLOCKS = OBJECTS.replace("model", "block").replace("optimizer", "types").replace("loader =", "checkpoint =")


@dataclass
class Shape(Notebook):
    """A notebook whose training cell is captured as profile captures it, once."""

    earlier: str = SETUP + OBJECTS
    taken: tuple[
        str, ...
    ] = ()  # names that the user has given to something else, in an earlier cell and in this one
    _captured: Workload | None = field(default=None, init=False)

    def started(self) -> dict[str, Any]:
        namespace: dict[str, Any] = {"__name__": "__main__"}
        text = self.earlier + "\n" + "".join(f"{name} = 'mine'\n" for name in self.taken)
        filename = f"<earlier cell {hash(text)}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), namespace)
        return namespace

    def workload(self, namespace: dict[str, Any], seen: dict[str, Any] | None = None) -> Workload:
        captured = self.captured()
        roles = []
        for role in captured.roles:
            found = look_up(captured.namespace if role.is_built_by_cell else namespace, role.name)
            roles.append(replace(role, reference=weakref.ref(found)))
        self.built = tuple(role.name for role in roles if role.is_built_by_cell and "." not in role.name)
        return replace(captured, namespace=namespace, roles=tuple(roles))

    def trained_live(self, plan: str) -> tuple[Any, ...]:
        """What the kept plan gives, read before it is taken back."""
        namespace = self.started()
        for name in self.built:
            namespace.pop(name, None)
        live = LivePlan(self.workload(namespace))
        live.keep(Plan.parse(plan))
        try:
            execute(self.cell, namespace)
            return outcome(namespace)
        finally:
            live.undo()

    def captured(self) -> Workload:
        if self._captured is None:
            namespace = self.started()
            capture = CellCapture(self.cell, self.cell, namespace)
            with capture:
                exec(compile(capture.transform(ast.parse(self.cell)), capture.filename, "exec"), namespace)
            workload, _ = capture.finish()
            self._kept = namespace  # roles refer to its objects weakly
            self._captured = replace(workload, reads_back=tuple(self._reads(namespace, capture.filename)))
        return self._captured

    def _reads(self, namespace: dict[str, Any], filename: str) -> Iterator[ReadBack]:
        """As a profile on a GPU has them."""
        if "train" in namespace:
            filename = namespace["train"].__code__.co_filename
        lines = linecache.getlines(filename) or self.cell.splitlines(keepends=True)
        for number, line in enumerate(lines, start=1):
            if "+= loss.item()" in line:
                yield ReadBack(filename, number, "float", "cuda:0")


SHAPES = {
    "loop in the cell": Shape(LOOP),
    "loop in a function of an earlier cell": Shape(
        "train(model, loader, optimizer)", earlier=SETUP + OBJECTS + TRAIN
    ),
    "trainer of an earlier cell": Shape(
        "trainer.fit()", earlier=SETUP + TRAIN + TRAINER + "\nnet = build()\ntrainer = Trainer(net)"
    ),
    "trainer built in the cell": Shape(
        "trainer = Trainer(net)\ntrainer.fit()", earlier=SETUP + TRAIN + TRAINER + "\nnet = build()"
    ),
    "optimizer and loader built in the cell": Shape(OBJECTS.split("\n", 2)[2] + LOOP, earlier=SETUP + "\nmodel = build()"),
    "objects called like what exports bind": Shape(
        "train(block, checkpoint, types)", earlier=SETUP + BLOCKS + TRAIN
    ),
}  # fmt: skip
KNOBS = {
    "compile_model": '(backend="eager")', "compile_optimizer": '(backend="eager")', "intraop_threads": "(n=1)",
    "loader_workers": "(n=1, persistent=True)", "batch_size": '(factor=2, lr_rule="linear")', "prefetch_to_device": "(batches=1)",
}  # fmt: skip
MORE = ['autocast(dtype="fp16")', 'prune(criterion="taylor", stages=2, steps_between=1)', "bias_off(scope=\"before norm\")",
        "batch_size(factor=0.5)+gradient_accumulation(micro_batches=3)", 'compile_model(backend="eager", scope="regions")',
        "loader_workers(n=1, persistent=True)+prefetch_to_device+cache_dataset+batched_transforms"]  # fmt: skip
PLANS = [
    entry.name + KNOBS.get(entry.name, "")
    for entry in CATALOGUE
    if not issubclass(entry, Started)
    and not getattr(entry, "needs_ranks", False) and not getattr(entry, "makes_ranks", False)
]  # fmt: skip


def bound_by(code: str) -> set[str]:
    """Names that the code binds at its top."""
    table = symtable.symtable(code, "<code>", "exec")
    return {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}


def read_by(code: str) -> set[str]:
    """Names that it reads as globals."""
    return {
        node.id
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def outcome(namespace: dict[str, Any]) -> tuple[Any, ...]:
    """Losses, updates of each optimizer, and weights."""
    holder = namespace.get("trainer")
    model = look_up(namespace, "trainer.net") or namespace.get("model") or namespace["block"]
    optimizer = holder.optimizer if holder else namespace.get("optimizer") or namespace["types"]
    updates = {int(state["step"]) for state in optimizer.state.values() if "step" in state}
    weights = [tensor.tolist() for tensor in model.state_dict().values()]
    return namespace["losses"], updates, weights


@pytest.fixture(autouse=True)
def the_process_as_it_was() -> Iterator[None]:
    """Exported code has no undo."""
    threads, backward = torch.get_num_threads(), torch.autograd.backward
    flags = (
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.allow_tf32,
        torch.get_float32_matmul_precision(),
    )
    hooks = [(each, dict(each)) for each in (_global_optimizer_pre_hooks, _global_optimizer_post_hooks)]
    methods = torch.Tensor.to, torch.Tensor.cuda, torch.set_anomaly_enabled, torch.autocast.__enter__
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch.autograd.backward = backward
    torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = flags[:2]
    torch.set_float32_matmul_precision(flags[2])
    torch.Tensor.to, torch.Tensor.cuda, torch.set_anomaly_enabled, torch.autocast.__enter__ = methods
    for each, known in hooks:
        each.clear()
        each.update(known)
    fix_thresholds()


def cases() -> Iterator[Any]:
    """Each plan in one of the shapes, and those of the batch in all; all of all in `make test-all`."""
    for number, plan in enumerate([*PLANS, *MORE]):
        compiles = "backend" in plan
        for place, shape in enumerate(SHAPES):
            if "compile_optimizer" in plan and "built" in shape:
                continue  # the live plan finds it in its first step: close, not equal
            is_chosen = plan.startswith(("batch_size", "gradient_acc")) or place == (
                0 if compiles else number % len(SHAPES)
            )
            marks = [
                *([] if is_chosen else [pytest.mark.whole]),
                *([pytest.mark.compiles] if compiles else []),
            ]
            yield pytest.param(shape, plan, marks=marks, id=f"{plan}-{shape}")


@pytest.mark.parametrize(("shape", "plan"), cases())
def test_the_export_trains_as_the_kept_plan_uses_all_that_it_writes_and_takes_no_name(
    shape: str, plan: str
) -> None:
    notebook = SHAPES[shape]
    export = notebook.export(plan)
    assert export.notes == ()
    theirs = bound_by(notebook.cell)
    ours = bound_by(export.code) - theirs - {"train"}  # async_metrics defines the user's own function anew
    assert ours <= read_by(export.code), "each definition is used"
    assert all(name.startswith("_") for name in ours)
    used = read_by(export.code) & set(vars(builtins)) - read_by(notebook.cell + notebook.earlier)
    used -= {"super"} | (
        {"float", "hasattr"} if plan == "async_metrics" else set()
    )  # it edits the user's own lines
    taken = ours | {name.lstrip("_") for name in ours} | used | {"torch"}
    taken -= bound_by(notebook.earlier) - {"torch"}
    full = replace(
        notebook, taken=tuple(taken), cell=f"{' = '.join(sorted(taken))} = 'mine'\n{notebook.cell}"
    )
    live = notebook.trained_live(plan)  # first: exported code has no undo
    plain = full.run_plain(full.export(plan).code)
    assert outcome(plain) == live
    assert {plain[name] for name in taken} == {"mine"}
