"""Batches that are taken ahead come in the same order, end, break off and fail as they would have."""

from __future__ import annotations

import copy
import gc
import weakref

import pytest
import torch
from small_training import training, workload_of
from torch.utils.data import DataLoader, Dataset
from training_on_pictures import Pictures, training_on, usual_transforms

from accel.accelerations.loader_workers import LoaderWorkers
from accel.accelerations.prefetch_to_device import PrefetchToDevice
from accel.errors import AccelError
from accel.plans.plan import Plan
from accel.techniques.data.batches_ahead import look_ahead
from accel.workload import Replica

each_count = pytest.mark.parametrize("workers", [0, 2])


class Numbers(Dataset):
    def __init__(self, fails_at=-1):
        self.fails_at, self.read = fails_at, []

    def __len__(self):
        return 10

    def __getitem__(self, index):
        self.read.append(index)
        if index == self.fails_at:
            raise ValueError("a broken file")
        return torch.tensor(index)


def ahead(loader, batches=3):
    iterator = iter(loader)
    return iterator, look_ahead(iterator, batches, None)


@each_count
def test_all_batches_come_in_order_and_then_it_is_over(workers):
    iterator, looking = ahead(DataLoader(Numbers(), batch_size=None, num_workers=workers))
    assert [int(number) for number in iterator] == list(range(10))
    assert looking.given_ahead >= 8
    with pytest.raises(StopIteration):
        next(iterator)


def test_it_reads_no_further_than_it_was_told():
    numbers = Numbers()
    iterator, _ = ahead(DataLoader(numbers, batch_size=None), batches=3)
    next(iterator), next(iterator)
    assert numbers.read == [0, 1, 2, 3, 4]


@each_count
def test_an_error_is_raised_when_its_batch_is_asked_for(workers):
    iterator, _ = ahead(DataLoader(Numbers(fails_at=3), batch_size=None, num_workers=workers))
    assert [int(next(iterator)) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="a broken file"):
        next(iterator)
    assert int(next(iterator)) == 4
    if workers:
        iterator._shutdown_workers()  # torch's error holds the iterator: they would wait for the garbage collector


@each_count
def test_breaking_off_lets_go_of_iterator_and_workers(workers):
    gc.collect()
    gc.disable()
    try:
        loader = DataLoader(Numbers(), batch_size=None, num_workers=workers)
        with PrefetchToDevice().apply(Replica(loaders={"loader": loader})):
            for _ in loader:
                break
            iterator = iter(loader)
            next(iterator)
            gone = weakref.ref(iterator)
            del iterator, _
            assert gone() is None
            assert [int(number) for number in loader] == list(range(10))
    finally:
        gc.enable()


def test_where_batches_draw_random_numbers_nothing_is_taken_ahead():
    """Dropout and augmentation share a generator: what is drawn ahead would shift all that follows."""

    def losses(plan):
        made = training_on(Pictures(usual_transforms()))
        made.model.insert(2, torch.nn.Dropout(0.5))
        with plan.apply(made.replica()):
            return made.epochs(3), plan.proofs(made.replica())

    usual, _ = losses(Plan())
    got, proofs = losses(Plan((PrefetchToDevice(),)))
    assert got == usual
    assert proofs[0][1].evidence.startswith("0 batches")


def test_a_deterministic_loader_is_taken_ahead_without_workers():
    made = training()
    made.model.insert(2, torch.nn.Dropout(0.5))
    usual = copy.deepcopy(made).epochs(3)
    with PrefetchToDevice(batches=1).apply(made.replica()):
        assert made.epochs(3) == usual
        assert PrefetchToDevice().took_effect(made.replica()).evidence.startswith("3 batches")


@pytest.mark.parametrize("persistent", [False, True])
def test_with_workers_in_either_order_of_keeping(persistent):
    usual = training().epochs(3)
    workers, ahead = LoaderWorkers(n=1, persistent=persistent), PrefetchToDevice()
    for first, second in ((workers, ahead), (ahead, workers)):
        made = training()
        with first.apply(made.replica()), second.apply(made.replica()):
            for _ in made.loader:
                break
            assert made.epochs(3) == usual
            assert workers.took_effect(made.replica()).took_effect
            copied = copy.deepcopy(made.loader) if not persistent else made.loader
            assert len(list(copied)) == 3
        assert made.epochs() == training_after(3).epochs()


def training_after(epochs):
    made = training()
    made.epochs(epochs)
    return made


def test_none_ahead_is_refused():
    with pytest.raises(AccelError, match="batches=1"):
        PrefetchToDevice(batches=0)


def test_exported_code_that_runs_again_takes_no_more_ahead():
    numbers = Numbers()
    namespace = {"loader": DataLoader(numbers, batch_size=None)}
    code = PrefetchToDevice(batches=3).as_code(workload_of(Replica(loaders=dict(namespace)), namespace))
    for _ in range(3):
        exec(code, namespace)
    iterator = iter(namespace["loader"])
    next(iterator), next(iterator)
    assert numbers.read == [0, 1, 2, 3, 4]


def test_only_tensors_that_move_are_counted_as_copied():
    """On the device that stands for a GPU here; classes of their own stay where they are."""
    _, looking = ahead(DataLoader(Numbers(), batch_size=None))
    looking.device = torch.device("meta")
    for part in (torch.ones(2), torch.ones(2, device="meta"), Numbers(), 3):
        moved = looking.moved(part)
        assert not isinstance(part, torch.Tensor) or moved.device.type == "meta"
    assert looking.tensors_copied == 1
