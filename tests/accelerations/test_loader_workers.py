"""What worker processes cannot load is said beforehand, and left alone where the cell builds it; n=0 takes workers away."""

from __future__ import annotations

import copy
import dataclasses
import gc
import multiprocessing
import pickle
import weakref
from functools import partial

import pytest
import torch
from small_training import training, workload_of
from torch._subclasses import FakeTensorMode
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    IterableDataset,
    Subset,
    TensorDataset,
    get_worker_info,
)
from torch.utils.data import get_worker_info as which_worker
from torch.utils.data.datapipes.iter import IterableWrapper

from accel.accelerations.loader_workers import LoaderWorkers
from accel.machine import read_machine
from accel.plans.plan import Plan
from accel.techniques.data.each_iterator import change_each_iterator
from accel.techniques.data.fit_for_workers import asks_which_worker, lies_on_gpu
from accel.techniques.data.pinning import why_not_pinned
from accel.workload import Replica
from accel.workload.call_inputs import CallInputs, TensorShape

ROWS = TensorDataset(torch.arange(10))


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(6))


def mine(samples):
    worker = get_worker_info()
    return samples if worker is None else samples[worker.id :: worker.num_workers]


def mine_by_another_name(samples):
    return samples if which_worker() is None else samples[which_worker().id :: which_worker().num_workers]


class Sharded(IterableDataset):
    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        return iter(range(6) if worker is None else range(worker.id, 6, worker.num_workers))


class ShardedByAFunction(IterableDataset):
    def __iter__(self):
        return iter(mine(range(6)))


class ShardedByItsClass(Sharded):
    pass


class ShardedByAProperty(IterableDataset):
    @property
    def samples(self):
        return mine(range(6))

    def __iter__(self):
        return iter(self.samples)


class Pipeline(IterableDataset):
    """Holds what it reads, and the functions through which that goes."""

    def __init__(self, *stages, source=None):
        self.source, self.stages, self.itself = source, list(stages), self

    def __iter__(self):
        samples = range(6) if self.source is None else list(self.source)
        for stage in self.stages:
            samples = stage(samples)
        return iter(samples)


def in_a_closure():
    share = mine
    return Pipeline(lambda samples: share(samples))


def doubled(samples):
    return [2 * each for each in samples]


def reasons(loader=None, entry=None, inputs=None, **machine):
    made = training()
    made.loader = made.loader if loader is None else loader
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


@pytest.mark.parametrize(
    ("dataset", "asks"),
    [
        (Sharded(), True),
        (ShardedByAFunction(), True),
        (ShardedByItsClass(), True),
        (ShardedByAProperty(), True),
        (Pipeline(doubled, mine), True),
        (Pipeline(partial(mine)), True),
        (Pipeline(mine_by_another_name), True),
        (Pipeline(doubled, source=Sharded()), True),
        (in_a_closure(), True),
        (IterableWrapper(range(6)).sharding_filter().map(doubled), True),
        (IterableWrapper(range(6)).map(doubled), False),
        (Stream(), False),
        (Pipeline(doubled, partial(map, doubled)), False),
        (Pipeline(source=Stream()), False),
        (ROWS, False),
        (range(6), False),
    ],
)
def test_a_data_set_that_shares_itself_out_is_known_by_the_code_that_it_leads_to(dataset, asks):
    assert asks_which_worker(dataset) == asks


@pytest.mark.parametrize(
    ("loader", "n"),
    [
        (DataLoader(Sharded(), batch_size=None), 2),
        (DataLoader(Pipeline(mine), batch_size=None), 1),
        (DataLoader(Stream(), batch_size=None, worker_init_fn=print), 1),
        (DataLoader(Sharded(), batch_size=None, num_workers=2), 1),
        (DataLoader(Sharded(), batch_size=None, num_workers=2), 0),
    ],
)
def test_a_stream_that_shares_itself_out_is_not_told_to_do_so(loader, n):
    (reason,) = reasons(loader, LoaderWorkers(n=n))
    assert "may change the sample order" in reason.because
    assert "get_worker_info" not in str(reason)


def test_iterators_that_a_loaders_class_makes_by_itself_are_left_as_they_are():
    class Foreign(DataLoader):
        def _get_iterator(self):
            return iter([1, 2])

    replica = Replica(loaders={"rows": Foreign(ROWS)})
    with LoaderWorkers(n=1).apply(replica):
        assert list(replica.loaders["rows"]) == [1, 2]
        assert not LoaderWorkers(n=1).took_effect(replica).took_effect


@pytest.mark.parametrize(
    "more", [{}, {"prefetch_factor": 4}, {"timeout": 30}, {"multiprocessing_context": "spawn"}], ids=str
)
@pytest.mark.parametrize("as_code", [False, True], ids=["applied", "as code"])
def test_without_workers_the_training_process_makes_the_same_batches(more, as_code):
    made, entry, expected = training(), LoaderWorkers(n=0), training().epochs(2)
    made.loader = DataLoader(made.loader.dataset, batch_size=4, shuffle=True, num_workers=1, **more)
    assert entry.why_not(made.workload(), read_machine()) == []
    if as_code:
        exec(entry.as_code(made.workload()), made.namespace)
        assert made.epochs(2) == expected
        return
    before = dict(vars(made.loader))
    with entry.apply(made.replica()):
        assert made.epochs(2) == expected
        proof = entry.took_effect(made.replica())
    assert proof.took_effect
    assert "0 worker processes" in proof.evidence
    assert vars(made.loader) == before


def test_that_no_worker_was_started_is_no_proof_before_an_epoch_began():
    replica = Replica(loaders={"rows": DataLoader(ROWS, num_workers=1)})
    with LoaderWorkers(n=0).apply(replica):
        assert not LoaderWorkers(n=0).took_effect(replica).took_effect


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"num_workers": 0}, "has 0 worker processes already"),
        ({"num_workers": 1, "worker_init_fn": print}, "worker_init_fn"),
        ({"num_workers": 1, "persistent_workers": True}, "persistent_workers"),
    ],
)
def test_workers_that_do_something_of_their_own_are_not_taken_away(settings, word):
    (reason,) = reasons(DataLoader(ROWS, **settings), LoaderWorkers(n=0))
    assert word in str(reason)


def two_loaders(train, held_out):
    """A training with two loaders of so many workers, and its workload."""
    made = training()
    rows = made.loader.dataset
    made.loader = DataLoader(rows, batch_size=4, num_workers=train)
    made.val_loader = DataLoader(rows, batch_size=4, num_workers=held_out)
    replica = dataclasses.replace(
        made.replica(), loaders={"loader": made.loader, "val_loader": made.val_loader}
    )
    return replica, workload_of(replica, made.namespace)


MANY_CORES = dataclasses.replace(read_machine(), usable_cores=8)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize(("train", "held_out", "n"), [(4, 0, 0), (1, 2, 2)])
def test_a_loader_that_has_as_many_workers_already_leaves_the_other_to_be_changed(train, held_out, n):
    (replica, workload), entry = two_loaders(train, held_out), LoaderWorkers(n=n)
    assert entry.why_not(workload, MANY_CORES) == []
    with entry.apply(replica):
        assert {name: loader.num_workers for name, loader in replica.loaders.items()} == {
            "loader": n, "val_loader": n
        }  # fmt: skip
        assert len(list(replica.loaders["loader"])) == 3
        proof = entry.took_effect(replica)
    assert proof.took_effect
    assert f"val_loader has {n} worker processes already" in proof.evidence
    assert replica.loaders["loader"].num_workers == train


@pytest.mark.parametrize("n", [0, 2])
def test_where_every_loader_has_as_many_workers_already_each_is_named(n):
    _, workload = two_loaders(n, n)
    said = [reason.because for reason in LoaderWorkers(n=n).why_not(workload, MANY_CORES)]
    assert said == [f"{name} has {n} worker processes already" for name in ("loader", "val_loader")]


def test_workers_can_be_taken_away_where_there_is_one_core_or_the_data_lie_on_the_gpu():
    assert reasons(DataLoader(ROWS, num_workers=1), LoaderWorkers(n=0), usable_cores=1) == []
    assert reasons(DataLoader(on_gpu(), num_workers=1), LoaderWorkers(n=0)) == []


@pytest.mark.parametrize(
    ("entry", "others"),
    [
        (LoaderWorkers(n=0), [LoaderWorkers(n=1)]),
        (LoaderWorkers(n=0, persistent=True), [LoaderWorkers(n=1, persistent=True)]),
        (
            LoaderWorkers(n=1, persistent=True),
            [LoaderWorkers(n=0), LoaderWorkers(n=2, persistent=True), LoaderWorkers(n=1)],
        ),
        (LoaderWorkers(n=4), [LoaderWorkers(n=2), LoaderWorkers(n=8), LoaderWorkers(n=4, persistent=True)]),
    ],
    ids=str,
)
def test_a_search_goes_on_with_half_and_twice_as_many_workers_and_down_to_none(entry, others):
    assert list(entry.other_settings(read_machine())) == others


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
