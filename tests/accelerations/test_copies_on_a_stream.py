"""The order of copies and steps on a GPU, played by a device that only writes down what it is told."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from accel.techniques.data.batches_ahead import look_ahead


class Stream:
    """What was queued, here and on all other streams, in order."""

    def __init__(self, name, told):
        self.name, self.told = name, told

    def record_event(self):
        self.told.append((self.name, "records", event := f"event {len(self.told)}"))
        return event

    def wait_event(self, event):
        self.told.append((self.name, "waits for", event))


@pytest.fixture
def told(monkeypatch):
    told: list[tuple[object, ...]] = []
    step, copies = Stream("step", told), Stream("copies", told)
    current = [step]

    @contextmanager
    def on(stream):
        current.append(stream)
        yield
        current.pop()

    def move(tensor, device, non_blocking=False):
        told.append((current[-1].name, "copies without waiting" if non_blocking else "copies", id(tensor)))
        return tensor.clone()

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: copies)
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: current[-1])
    monkeypatch.setattr(torch.Tensor, "to", move, raising=False)
    monkeypatch.setattr(
        torch.Tensor, "record_stream", lambda self, stream: told.append((stream.name, "holds", id(self)))
    )
    return told


def test_copies_run_beside_the_step_which_waits_for_its_own_and_holds_its_memory(told):
    data = TensorDataset(torch.arange(8.0), torch.arange(8))
    iterator = iter(DataLoader(data, batch_size=2))
    look_ahead(iterator, 1, torch.device("cuda", 0))
    copied, given = [], []
    for batch in iterator:
        given.append(batch)
        copied.append(sum(what == "records" for _, what, _ in told))
    assert [numbers.tolist() for numbers, _ in given] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert copied == [1, 3, 4, 4], "what comes next is copied once a second batch showed that it may be"
    assert {who for who, what, _ in told if "copies" in what} == {"copies"}
    assert {what for _, what, _ in told if "copies" in what} == {"copies without waiting"}
    assert [event for who, what, event in told if (who, what) == ("step", "waits for")] == [
        event for who, what, event in told if (who, what) == ("copies", "records")
    ]
    held = [part for who, what, part in told if (who, what) == ("step", "holds")]
    assert held == [id(part) for batch in given for part in batch]
    for number, (who, what, event) in enumerate(told):
        if what == "waits for":
            assert who == "step"
            assert told.index(("copies", "records", event)) < number
            assert [each[1] for each in told[number + 1 : number + 3]] == ["holds", "holds"]
