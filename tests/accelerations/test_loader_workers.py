"""What worker processes cannot load is said beforehand, and left alone where the cell builds it."""

from __future__ import annotations

import copy
import dataclasses
import gc
import multiprocessing
import pickle
import weakref

import pytest
import torch
from small_training import training, workload_of
from torch._subclasses import FakeTensorMode
from torch.utils.data import ConcatDataset, DataLoader, IterableDataset, Subset, TensorDataset

from accel.accelerations.loader_workers import LoaderWorkers
from accel.machine import read_machine
from accel.plans.plan import Plan
from accel.techniques.data.each_iterator import change_each_iterator
from accel.techniques.data.fit_for_workers import lies_on_gpu
from accel.techniques.data.pinning import why_not_pinned
from accel.workload import Replica
from accel.workload.call_inputs import CallInputs, TensorShape

ROWS = TensorDataset(torch.arange(10))


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(6))


def reasons(loader=None, entry=None, inputs=None, **machine):
    made = training()
    made.loader = loader or made.loader
    workload = workload_of(made.replica(), made.namespace, "", inputs)
    return (entry or LoaderWorkers(n=1)).why_not(
        workload, dataclasses.replace(read_machine(), **{"usable_cores": 8} | machine)
    )


def test_a_stream_that_the_cell_builds_is_not_read_by_every_worker():
    loader = DataLoader(Stream(), batch_size=None)
    replica = Replica(loaders={"loader": loader}, is_process_wide=False)
    with LoaderWorkers(n=2).apply(replica):
        assert list(loader) == list(range(6))
        proof = LoaderWorkers(n=2).took_effect(replica)
    assert not proof.took_effect
    assert "IterableDataset" in proof.evidence


def test_a_stream_beside_a_loader_that_takes_workers_is_no_failure():
    replica = Replica(loaders={"rows": DataLoader(ROWS), "stream": DataLoader(Stream())})
    with LoaderWorkers(n=1).apply(replica):
        for loader in replica.loaders.values():
            list(loader)
        proof = LoaderWorkers(n=1).took_effect(replica)
    assert proof.took_effect
    assert "stream reads an IterableDataset" in proof.evidence


def test_iterators_that_a_loaders_class_makes_by_itself_are_left_as_they_are():
    class Foreign(DataLoader):
        def _get_iterator(self):
            return iter([1, 2])

    replica = Replica(loaders={"rows": Foreign(ROWS)})
    with LoaderWorkers(n=1).apply(replica):
        assert list(replica.loaders["rows"]) == [1, 2]
        assert not LoaderWorkers(n=1).took_effect(replica).took_effect


def on_gpu():
    with FakeTensorMode():
        return TensorDataset(torch.empty(10, 3, device="cuda"))


@pytest.mark.parametrize(
    "dataset",
    [
        lambda: on_gpu(),
        lambda: Subset(on_gpu(), range(4)),
        lambda: ConcatDataset([ROWS, Subset(on_gpu(), [0])]),
        lambda: [(on_gpu().tensors[0], 1)],
    ],
    ids=["whole", "subset", "joined", "list"],
)
def test_data_on_the_gpu_are_found_inside_other_data_sets(dataset):
    loader = DataLoader(dataset())
    (reason,) = reasons(loader)
    assert "lies on the GPU" in str(reason)
    (reason,) = why_not_pinned("loader", loader, "")
    assert "lies on the GPU already" in str(reason)


def test_data_in_main_memory_are_not_taken_for_data_on_a_gpu():
    assert not any(map(lies_on_gpu, (ROWS, Subset(ROWS, [1]), list(range(10)), Stream())))


def test_batches_that_shared_memory_cannot_hold_are_a_reason():
    batch = CallInputs((TensorShape((10**6, 10**6), torch.float32, "cpu"),))
    (reason,) = reasons(entry=LoaderWorkers(n=3, prefetch_factor=4), inputs=batch)
    assert reason.because.startswith("12 batches of about 3.64 TiB do not fit into /dev/shm")


def test_many_more_workers_than_cores_are_a_reason():
    assert reasons(entry=LoaderWorkers(n=8), usable_cores=4) == []
    (reason,) = reasons(entry=LoaderWorkers(n=9), usable_cores=4)
    assert "n=4 or less" in str(reason)


def test_asking_how_workers_start_settles_nothing(monkeypatch):
    default = multiprocessing.context._default_context
    monkeypatch.setattr(default, "_actual_context", None)
    assert reasons() == []
    assert multiprocessing.get_start_method(allow_none=True) is None


class WithFunction(torch.utils.data.Dataset):
    def __init__(self, function):
        self.steps = [{"function": function, "numbers": torch.ones(3)}]

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.steps[0]["function"](index)


@pytest.mark.parametrize(
    ("context", "function", "word"),
    [
        ("spawn", lambda index: index, "<lambda>"),
        ("forkserver", lambda index: index, "<lambda>"),
        ("spawn", (index for index in range(3)), "generator"),
        ("spawn", abs, ""),
        ("fork", lambda index: index, ""),
    ],
    ids=["lambda", "forkserver", "generator", "importable", "forked"],
)
def test_where_workers_are_not_forked_what_they_cannot_import_is_named(context, function, word):
    loader = DataLoader(WithFunction(function), multiprocessing_context=None)
    vars(loader)["_DataLoader__multiprocessing_context"] = multiprocessing.get_context(context)
    found = reasons(loader)
    assert len(found) == bool(word)
    assert word in "".join(map(str, found))


@pytest.mark.parametrize(
    "plan",
    [
        "loader_workers(n=1, persistent=True)",
        "loader_workers(n=1)+prefetch_to_device",
        "loader_workers(n=1, persistent=True)+prefetch_to_device",
    ],
)
def test_a_loader_that_the_plain_code_changed_goes_with_its_workers_when_the_cell_builds_another(plan):
    """In a circle of references they would wait for the garbage collector, and then five seconds for each worker."""
    made = training()
    cell, codes = made.namespace, [entry.as_code(made.workload()) for entry in Plan.parse(plan).entries]
    gc.collect()
    gc.disable()
    try:
        for code in codes:
            exec(code, cell)
        made.epochs(2)
        iterator = made.loader._iterator
        workers = list(iterator._workers) if "persistent" in plan else []
        gone = weakref.ref(made.loader)
        del iterator
        made.loader = cell["loader"] = None
        assert gone() is None
        assert not any(worker.is_alive() for worker in workers)
    finally:
        gc.enable()


CHANGED = []


def note(iterator):
    CHANGED.append(iterator)


@pytest.mark.parametrize(
    "made_from",
    [lambda loader: pickle.loads(pickle.dumps(loader)), copy.copy, copy.deepcopy, lambda loader: loader],
    ids=["pickle", "copy", "deepcopy", "itself"],
)
def test_a_loader_that_the_plain_code_changed_can_be_copied_and_one_of_its_class_can_be_made(made_from):
    loader = DataLoader(TensorDataset(torch.arange(20.0)), batch_size=4)
    change_each_iterator(loader, noted=note)
    changed = made_from(loader)
    assert len(list(changed)) == 5
    assert len(CHANGED) == 1
    CHANGED.clear()
    assert type(changed).__name__ == "DataLoader"
    assert len(list(type(changed)(loader.dataset, batch_size=10))) == 2
    assert not CHANGED
