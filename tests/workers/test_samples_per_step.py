"""Steps that hold more samples are compared per sample; how many they hold is counted where they run."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from accel.measuring.per_sample import compared_times
from accel.workers.sample_count import SampleCount
from accel.workload.capture import CellCapture
from accel.workload.loop_record import samples_in
from tests.workers.conftest import CELL


def test_twice_the_batch_is_compared_per_sample_beside_a_plan_that_is_compared_per_step(
    workbench, monkeypatch
):
    rounds = []  # of the doubled batch, as they were timed: a busy machine makes them uneven

    def noted(base, own):
        if np.median(own.every_step_samples) == 32:
            per_step = np.divide(base.step_ns, own.step_ns)
            rounds.extend(per_step * np.divide(own.step_samples, base.step_samples))
        return compared_times(base, own)

    monkeypatch.setattr("accel.workers.stage.compared_times", noted)
    workbench.profile(CELL)
    ladder = workbench.try_("batch_size", "fused_optimizer")
    doubled, fused = ladder["batch_size"], ladder["fused_optimizer"]
    assert doubled.samples_per_step == (16, 32)
    assert "per sample" in doubled.sentence
    assert doubled.quality.following == "other batches"
    assert doubled.proofs == (("batch_size", True, "batches of 32 samples instead of 16"),)
    shown = doubled.headline or doubled.steady
    assert min(rounds) <= shown.ratio <= max(rounds)
    assert fused.samples_per_step is None
    assert "per sample" not in fused.sentence
    assert fused.quality.following in ("same", "follows")


def counted(cell_steps, *, without_loader=0):
    with SampleCount(without_loader) as count:
        return [count.step() for _ in cell_steps(count)]


def test_batches_that_are_not_trained_on_and_a_second_backward_count_nothing():
    train, valid = (DataLoader(TensorDataset(torch.ones(n)), batch_size=4) for n in (10, 64))

    def steps(count):
        for _ in range(2):
            for _ in train:
                count.backward()
                count.backward()
                yield
            for _ in valid:
                pass

    assert counted(steps) == [4, 4, 2] * 2


def test_batches_fetched_ahead_count_as_large_as_the_one_before():
    def steps(count):
        for _ in list(DataLoader(TensorDataset(torch.ones(8)), batch_size=4)):
            count.backward()
            yield

    assert counted(steps) == [4, 4]


def test_without_a_loader_a_backward_counts_what_the_profile_saw():
    def steps(count):
        for _ in range(2):
            count.backward()
            count.backward()
            yield

    assert counted(steps, without_loader=16) == [32, 32]


def time_first(items):
    return nn.utils.rnn.pad_sequence(items)


def time_first_with_lengths(items):
    return time_first(items), torch.tensor([len(item) for item in items])


SENTENCES = [torch.ones(3 + number % 4) for number in range(22)]
BUCKETS = [[0, 4, 8], [1, 5], [2, 6, 10, 14, 18], [3]]


@pytest.mark.parametrize("collate", [time_first, time_first_with_lengths])
@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        ({"batch_size": 5}, [5, 5, 5, 5, 2]),
        ({"batch_size": 4, "num_workers": 2, "persistent_workers": True}, [4, 4, 4, 4, 4, 2]),
        ({"batch_sampler": BUCKETS}, [3, 2, 5, 1]),
    ],
    ids=["plain", "workers", "buckets"],
)
def test_batches_with_time_first_count_their_samples(collate, settings, sizes):
    loader = DataLoader(SENTENCES, collate_fn=collate, **settings)

    def steps(count):
        for _ in range(2):
            for _ in loader:
                count.backward()
                yield

    assert counted(steps) == sizes * 2


def test_a_profile_counts_samples_of_batches_with_time_first():
    cell = """
for x in loader:
    net(x.unsqueeze(2))[0].sum().backward()
    optimizer.step()
"""
    net = nn.RNN(1, 2)
    namespace = {
        "loader": DataLoader(SENTENCES, 5, collate_fn=time_first), "net": net,
        "optimizer": torch.optim.SGD(net.parameters(), 0.1),
    }  # fmt: skip
    capture = CellCapture(cell, cell, namespace)
    with capture:
        exec(cell, namespace)
    assert [step.samples for step in capture.finish()[1].steps.steps] == [5, 5, 5, 5, 2]


class AttributeDict(dict):
    """As many projects have it: KeyError for an attribute that it has not."""

    __getattr__ = dict.__getitem__


class Shaped:
    def __init__(self, shape):
        self.shape = shape


class Raises:
    """Whatever is asked of it."""

    def __getattribute__(self, name):
        raise RuntimeError(name)


@pytest.mark.parametrize(
    ("batch", "expected", "samples"),
    [
        (torch.ones(8, 3), 8, 8),
        ([torch.ones(5, 3), torch.ones(5)], 8, 5),
        ([[torch.ones(5, 3), torch.ones(5)], torch.ones(5)], 8, 5),
        ({"ids": torch.ones(7, 2), "mask": torch.ones(7, 2)}, 8, 7),
        (([torch.ones(3, 9, 9)] * 8, [{}] * 8), 8, 8),  # images of different sizes are not stacked
        ((["a"] * 8, torch.ones(8)), 8, 8),
        (torch.tensor(1.0), 8, 8),
        (object(), None, 0),
        ([], 8, 8),
        ([torch.ones(20, 5, 3), torch.ones(5)], 8, 5),  # time first, with labels
        (torch.ones(20, 8), 8, 8),  # time first, and as many as were drawn
        ([torch.ones(20, 8), torch.ones(20, 8)], 8, 8),
        ([torch.ones(58, 20), torch.ones(58)], 20, 58),  # the collate left some out
        (torch.ones(58, 3), 256, 58),
        ([torch.ones(8, 20), torch.ones(20, 20)], 8, 8),  # a mask over time
        ([torch.ones(8, 3), torch.ones(3)], 8, 8),  # weights of classes
        ({"x": torch.ones(70, 3), "edges": torch.ones(2, 90), "y": torch.ones(8)}, 8, 8),  # nodes of graphs
        ([torch.ones(90), torch.ones(8), torch.ones(8)], 8, 8),  # texts end to end, with offsets
    ],
)
def test_samples_are_told_from_what_a_loader_gives(batch, expected, samples):
    assert samples_in(batch, expected) == samples


def test_samples_of_what_is_no_tensor_and_may_raise():
    cases = [
        (AttributeDict(lr=0.1, x=torch.ones(5)), None, 0),
        (AttributeDict(x=torch.ones(5, 2)), 8, 5),
        ([AttributeDict(x=torch.ones(5, 2)), torch.ones(5)], 8, 5),
        (Shaped(np.array([4, 2])), None, 4),
        (Shaped("4 by 2"), None, 0),
        (Shaped(itertools.count()), None, 0),
        (Shaped(torch.ones(2, 2)), 8, 8),
        (Raises(), 8, 8),
        ([Raises()], 8, 8),
        ([Raises(), torch.ones(2)], 2, 2),
    ]
    for number, (batch, expected, samples) in enumerate(cases):
        assert samples_in(batch, expected) == samples, number


def test_a_batch_that_raises_whatever_is_asked_of_it_reaches_the_training():
    items = [AttributeDict(x=1), Raises()]
    with SampleCount(0):
        got = [item for batch in DataLoader(items, 1, collate_fn=list) for item in batch]
    assert all(mine is item for mine, item in zip(got, items, strict=True))


def test_a_batch_that_holds_itself_ends():
    batch: list = []
    batch.append(batch)
    assert samples_in(batch, 4) == 4


def test_accumulated_batches_make_larger_steps_unless_they_are_smaller_by_as_much(workbench):
    workbench.profile(CELL)
    split = "batch_size(factor=0.5)+gradient_accumulation"
    ladder = workbench.try_("gradient_accumulation", split)
    assert ladder["gradient_accumulation"].samples_per_step == (16, 32)
    assert ladder[split].samples_per_step is None
    assert ladder[split].quality.following == "follows"
    for row in ladder.rows:
        assert all(took for _, took, _ in row.proofs), row.proofs
