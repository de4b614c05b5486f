"""Training cells that each have one fault that a rule of diagnosis knows; for `python -m benchmarks.predictions`."""

from __future__ import annotations

from dataclasses import dataclass

START = """
import torch
from torch import nn
torch.manual_seed(0)
criterion = nn.CrossEntropyLoss()
"""

CNN = (
    START
    + """
from accel.labs.models import CNN
model = CNN()
optimizer = torch.optim.{optimizer}(model.parameters(), lr=1e-3)
batches = [(torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))) for _ in range(20)]
"""
)

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


def mlp(width: int, optimizer: str = "SGD") -> str:
    """A network of three linear layers."""
    return MLP.format(width=width, optimizer=optimizer)


@dataclass(frozen=True)
class Case:
    """A cell with a fault. `mended` is the cell after the remedy, where that is an edit and not a plan.

    `is_fitted`: a figure of this cell, or of one like it, went into the ranges of its rule (the comments there tell), so that
    it says how well the ranges describe what was seen, and nothing about other cells.
    """

    name: str
    rule: str
    setup: str
    cell: str = LOOP
    mended: str = ""
    mended_setup: str = ""
    is_fitted: bool = False


AUGMENTED = """
class Augmented(torch.utils.data.Dataset):
    def __len__(self):
        return 3200
    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        image = torch.randn(256, generator=generator)
        for shift in range(100):
            image = image.roll(shift).add(torch.randn(256, generator=generator), alpha=0.1).clamp(-3, 3)
        return image, i % 10
batches = torch.utils.data.DataLoader(Augmented(), batch_size=16)
"""
IN_MEMORY = """
X, Y = torch.randn(2560, 256), torch.randint(0, 10, (2560,))
batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=64, shuffle=True)
"""
BY_BATCH = """
for i in torch.randperm(len(X)).split(64):
    x, y = X[i], Y[i]
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
DOUBLES = """
data = [(torch.randn(512, 256, dtype=torch.float64), torch.randint(0, 10, (512,))) for _ in range(20)]
batches = data
"""
CONVERTING = """
for x, y in batches:
    x = x.to(torch.float32)
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
DEEP = (
    START
    + """
layers = [layer for _ in range(24) for layer in (nn.Linear(32, 32), nn.LayerNorm(32), nn.GELU())]
model = nn.Sequential(*layers, nn.Linear(32, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batches = [(torch.randn(16, 32), torch.randint(0, 10, (16,))) for _ in range(40)]
"""
)
SMALL_BATCHES = """
X, Y = torch.randn(1280, 256), torch.randint(0, 10, (1280,))
batches = list(zip(X.split({size}), Y.split({size})))
"""
VALIDATING = """
for x, y in batches:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
    {context}:
        for v, w in validation:
            correct = (model(v).argmax(1) == w).float().mean()
"""
READY = "\nbatches = [(torch.randn({size}, 256), torch.randint(0, 10, ({size},))) for _ in range(20)]\n"

CASES: tuple[Case, ...] = (
    Case("augmentation in Python", "input_bound", mlp(2048) + AUGMENTED),
    Case("tensors taken one by one", "input_bound", mlp(64) + IN_MEMORY, LOOP, BY_BATCH),
    Case("doubles converted each step", "copy_bound", mlp(32) + DOUBLES, CONVERTING, LOOP,
         mlp(32) + DOUBLES + "batches = [(x.float(), y) for x, y in data]\n", is_fitted=True),
    Case("24 layers of 32 units", "launch_bound", DEEP, is_fitted=True),
    Case("course CNN in float32", "low_precision_idle", CNN.format(optimizer="SGD")),
    Case("MLP of 1024 units in float32", "low_precision_idle", mlp(1024) + READY.format(size=256)),
    Case("course CNN in NCHW", "layout_nchw", CNN.format(optimizer="SGD")),
    Case("course CNN with plain Adam", "optimizer_not_fused", CNN.format(optimizer="Adam"), is_fitted=True),
    Case("MLP of 1024 units, plain Adam", "optimizer_not_fused", mlp(1024, "Adam") + READY.format(size=16),
         is_fitted=True),
    Case("batches of 8", "batch_too_small", mlp(64, "Adam") + SMALL_BATCHES.format(size=8), LOOP, LOOP,
         mlp(64, "Adam") + SMALL_BATCHES.format(size=32)),
    Case("one thread on two cores", "thread_subscription", CNN.format(optimizer="SGD")),
    Case("default malloc", "allocator_page_faults", CNN.format(optimizer="SGD"), is_fitted=True),
    Case("anomaly mode left on", "profiling_leftovers",
         mlp(256) + READY.format(size=64), "torch.autograd.set_detect_anomaly(True)\n" + LOOP, is_fitted=True),
    Case("gradients in validation", "gradients_in_validation",
         mlp(256) + READY.format(size=64) + "validation = batches[:2]\n",
         VALIDATING.format(context="if True"), VALIDATING.format(context="with torch.no_grad()"), is_fitted=True),
)  # fmt: skip
