"""What is exported for the data pipeline gives the losses of the live plan, also for a loader that the cell builds."""

from __future__ import annotations

import pytest
from notebook import OBJECTS, SETUP, Notebook, execute

from accel.plans.live_plan import LivePlan
from accel.plans.plan import Plan

PICTURES = """
import numpy as np
from PIL import Image
from torchvision import transforms

class Pictures(torch.utils.data.Dataset):
    def __init__(self, transform):
        self.pixels = np.random.default_rng(0).integers(0, 256, (16, 12, 12), dtype=np.uint8)
        self.transform = transform
    def __len__(self):
        return 16
    def __getitem__(self, i):
        return self.transform(Image.fromarray(self.pixels[i])), i % 3

steps = [transforms.Resize(8), transforms.RandomRotation(20), transforms.ToTensor(), transforms.Normalize(0.5, 0.5)]
data = Pictures(transforms.Compose(steps))
"""
LOOP = """
for epoch in range(2):
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""
TRAIN = "def train(model, loader, criterion, optimizer):" + LOOP.replace("\n", "\n    ")
NOTEBOOKS = {
    "explicit loop": Notebook(LOOP, earlier=SETUP + PICTURES + OBJECTS),
    "cell that builds everything": Notebook(OBJECTS + LOOP, earlier=SETUP + PICTURES, built=("model", "optimizer", "loader")),
    "train() of an earlier cell": Notebook(
        "train(model, loader, criterion, optimizer)", earlier=SETUP + PICTURES + OBJECTS + TRAIN
    ),
}  # fmt: skip
PLANS = [
    "cache_dataset",
    "batched_transforms",
    "pin_memory",
    "prefetch_to_device(batches=1)",
    "cache_dataset+loader_workers(n=1)+prefetch_to_device+batched_transforms",
]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("notebook", NOTEBOOKS.values(), ids=NOTEBOOKS)
def test_the_exported_cell_gives_the_losses_of_the_live_plan(notebook, plan):
    assert notebook.run_plain(notebook.export(plan).code)["losses"] == notebook.run_live(plan)["losses"]


@pytest.mark.parametrize("order", [PLANS[:4], PLANS[3::-1]], ids=["as applied", "reversed"])
def test_entries_kept_and_undone_one_by_one_leave_the_loader_as_it_was(order):
    notebook = NOTEBOOKS["explicit loop"]
    namespace = notebook.started()
    before = dict(vars(namespace["loader"]))
    live = LivePlan(notebook.workload(namespace))
    for plan in order:
        live.keep(Plan.parse(plan))
    execute(LOOP, namespace)
    for plan in order[:-1]:
        live.undo(Plan.parse(plan).names[0])
        execute(LOOP, namespace)
    live.undo()
    assert vars(namespace["loader"]) == before
