"""The data pipeline on a CUDA device: pinned batches, copies ahead of the step, transforms there. Skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from accel.accelerations.batched_transforms import BatchedTransforms
from accel.accelerations.cache_dataset import CacheDataset
from accel.accelerations.loader_workers import LoaderWorkers
from accel.accelerations.pin_memory import PinMemory
from accel.accelerations.prefetch_to_device import PrefetchToDevice
from accel.plans.plan import Plan
from accel.workload import Replica

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]

STEPS = [transforms.CenterCrop(16), transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.25,) * 3)]


class Pictures(Dataset):
    def __init__(self, steps):
        self.pixels = np.random.default_rng(0).integers(0, 256, (64, 20, 20, 3), dtype=np.uint8)
        self.transform = transforms.Compose(steps)

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, index):
        return self.transform(Image.fromarray(self.pixels[index])), index % 5


def losses(plan, workers=0, epochs=3):
    torch.manual_seed(0)
    loader = DataLoader(Pictures(STEPS), batch_size=8, shuffle=True, num_workers=workers)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 5)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    replica, found = Replica(models={"model": model}, loaders={"loader": loader}), []
    with plan.apply(replica):
        for _ in range(epochs):
            for images, labels in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                loss.backward()
                optimizer.step()
                found.append(loss.detach())
        proofs = plan.proofs(replica)
    return [loss.item() for loss in found], proofs


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "entries",
    [
        (PinMemory(),),
        (PrefetchToDevice(),),
        (PinMemory(), PrefetchToDevice(batches=3)),
        (CacheDataset(what="device"),),
    ],
    ids=lambda entries: "+".join(entry.name for entry in entries),
)
def test_losses_are_the_same_and_each_took_effect(entries, workers):
    if workers and "cache_dataset" in entries[0].name:
        pytest.skip("whole batches on the device need no worker processes")
    usual, _ = losses(Plan(), workers)
    got, proofs = losses(Plan(entries), workers)
    assert got == usual
    assert all(proof.took_effect for _, proof in proofs), proofs


def test_a_loader_that_pins_its_batches_is_left_unpinned_where_they_lie_on_the_device():
    loader = DataLoader(Pictures(STEPS), batch_size=8, pin_memory=True)
    model = nn.Linear(1, 1).cuda()
    with CacheDataset(what="device").apply(Replica(models={"model": model}, loaders={"loader": loader})):
        assert all(images.is_cuda for images, _ in loader)


@pytest.mark.parametrize(
    "entry", [CacheDataset(what="device"), BatchedTransforms()], ids=lambda entry: entry.name
)
def test_a_model_on_the_cpu_gets_its_batches_there(entry):
    loader = DataLoader(Pictures(STEPS), batch_size=8)
    with entry.apply(Replica(models={"model": nn.Linear(1, 1)}, loaders={"loader": loader})):
        assert not any(images.is_cuda for images, _ in loader)


@pytest.mark.parametrize("workers", [0, 2])
def test_transforms_on_the_device_give_nearly_the_losses_of_the_cpu(workers):
    usual, _ = losses(Plan(), workers)
    got, proofs = losses(Plan((PinMemory(), PrefetchToDevice(), BatchedTransforms())), workers)
    assert got == pytest.approx(usual, rel=1e-3)
    assert all(proof.took_effect for _, proof in proofs), proofs


def test_all_together_with_worker_processes():
    entries = (CacheDataset(), LoaderWorkers(n=2), PinMemory(), PrefetchToDevice())
    got, proofs = losses(Plan(entries))
    assert got == losses(Plan())[0]
    assert all(proof.took_effect for _, proof in proofs), proofs


def test_a_batch_that_is_used_late_is_not_written_over():
    """Memory from the copies' stream must not be given out again while the step's stream still reads it."""
    loader = DataLoader(Pictures(STEPS), batch_size=8)
    expected = [images for images, _ in loader]
    with PrefetchToDevice(batches=4).apply(Replica(loaders={"loader": loader})):
        sums = []
        for images, _ in loader:
            torch.cuda._sleep(20_000_000)
            sums.append(images.double().sum())
            del images
    assert [total.item() for total in sums] == pytest.approx(
        [each.double().sum().item() for each in expected]
    )
