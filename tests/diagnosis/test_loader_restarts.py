"""Worker processes started for every epoch are found; kept ones, one epoch, and loaders without workers are not."""

from __future__ import annotations

from functools import cache

from accel.diagnosis.loader_restarts import loader_restarts
from tests.diagnosis.making import real

DATA = """
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(32, 16), torch.randint(0, 4, (32,))), batch_size=8{more})
"""
EPOCHS = """
for epoch in range({epochs}):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
"""


def profiled(more, epochs=3):
    return real(EPOCHS.format(epochs=epochs), DATA.format(more=more), timed=False)


@cache
def faulty():
    return profiled(", num_workers=1")


@cache
def sound():
    return profiled(", num_workers=1, persistent_workers=True")


def test_the_starts_are_counted_and_the_first_is_not_held_against_it():
    finding = loader_restarts(faulty())
    (start,) = faulty().profile.whole_run.loader_starts
    assert finding.details["starts"] == 3
    assert 0 < finding.share < faulty().of_cell(start.ms)
    assert "persistent_workers=True" in finding.remedy


def test_one_epoch_has_one_start():
    assert loader_restarts(profiled(", num_workers=1", epochs=1)) is None


def test_a_loader_without_workers_starts_none():
    assert loader_restarts(profiled("")) is None
