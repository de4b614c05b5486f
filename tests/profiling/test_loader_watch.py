"""Where the data pipeline's time goes, in this process and in workers, with batches and random numbers as without."""

from __future__ import annotations

import random
import time
from functools import partial

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, TensorDataset
from torchvision import datasets, transforms
from torchvision.transforms import v2

from accel.accelerations.loader_workers import LoaderWorkers
from accel.profiling.loader_watch import BATCHES, LoaderWatch
from accel.profiling.pipeline_timer import TimedCall
from accel.workbench import Workbench
from accel.workload.generators import generator_states
from accel.workload.phase_marks import PhaseMarks
from accel.workload.replica import Replica


class Slow:
    """Takes its time, and draws from all three generators."""

    def __call__(self, image):
        time.sleep(0.01)
        return image + torch.rand(()) + random.random() + np.random.rand()


class Quick:
    def __call__(self, image):
        return image * 2


class Unwilling(Quick):
    """Has nothing but its call, and says so with an error that getattr does not expect."""

    def __getattr__(self, name):
        raise KeyError(name)


class NoFunction(Quick):
    func = property(lambda self: 1 / 0)


def brighten(image, by):
    return image + by


class Pictures(Dataset):
    def __init__(self, transform=None, count=40):
        self.transform, self.count = transform, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        image = torch.full((1, 4, 4), float(index))
        return (image if self.transform is None else self.transform(image)), index % 10


class Stream(IterableDataset):
    def __init__(self, transform, count=24):
        self.transform, self.count = transform, count

    def __iter__(self):
        return ((self.transform(torch.zeros(1)), number) for number in range(self.count))


def first_worker_seed(worker):
    torch.manual_seed(worker)


def watched(loader, epochs=1):
    """All batches under the watch, and what it found."""
    with PhaseMarks(ranges="off") as marks, LoaderWatch(marks) as watch:
        batches = [batch for _ in range(epochs) for batch in loader]
    return batches, watch.found({"loader": loader})


def only(loader, **options):
    (found,) = watched(loader, **options)[1]
    return found


def stages(found):
    return {stage.name: stage for stage in found.stages}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("composed", [transforms.Compose, v2.Compose])
def test_each_transform_is_timed_by_its_class_where_it_runs(workers, composed):
    loader = DataLoader(Pictures(composed([Slow(), Quick()])), batch_size=4, num_workers=workers)
    found = only(loader)
    named = stages(found)
    assert set(named) == {"Slow", "Quick", "reading", "collating"}
    assert list(found.stages) == sorted(found.stages, key=lambda stage: -stage.share)
    assert named["Slow"].ms_per_sample > 2
    assert found.ms_per_batch > 4 * 2
    assert sum(stage.share for stage in found.stages) == pytest.approx(1)
    assert named["Slow"].share / named["Quick"].share == pytest.approx(
        named["Slow"].ms_per_sample / named["Quick"].ms_per_sample
    )
    assert named["Slow"].calls == 4 * found.batches == 4 * named["collating"].calls
    assert (found.loader, found.workers, found.not_measured) == ("loader", workers, "")
    assert "Slow" in str(found)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("init_fn", [None, first_worker_seed])
def test_batches_order_and_random_numbers_are_those_without_the_watch(workers, init_fn):
    def run(watch):
        torch.manual_seed(3), random.seed(3), np.random.seed(3)
        dataset = Pictures(transforms.Compose([Slow(), Quick()]))
        loader = DataLoader(dataset, batch_size=4, shuffle=True, num_workers=workers, worker_init_fn=init_fn)
        batches = watched(loader, epochs=2)[0] if watch else [batch for _ in range(2) for batch in loader]
        return batches, generator_states()

    (seen, after), (plain, plain_after) = run(True), run(False)
    assert len(seen) == len(plain) == 20
    for batch, expected in zip(seen, plain, strict=True):
        assert torch.equal(batch[1], expected[1])
        assert torch.equal(batch[0], expected[0])
    assert torch.equal(after["torch"], plain_after["torch"])
    assert after["python"] == plain_after["python"]
    assert str(after["numpy"]) == str(plain_after["numpy"])


@pytest.mark.parametrize("workers", [0, 2])
def test_objects_of_the_user_are_as_before(workers):
    transform = Slow()
    dataset = Pictures(transform)
    loader = DataLoader(dataset, batch_size=4, num_workers=workers, worker_init_fn=first_worker_seed)
    before = dict(vars(dataset)), dict(vars(loader)), DataLoader._get_iterator
    compose = transforms.Compose.__call__, v2.Compose.forward
    watched(loader)
    assert (vars(dataset), vars(loader), DataLoader._get_iterator) == before
    assert dataset.transform is transform
    assert (transforms.Compose.__call__, v2.Compose.forward) == compose


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("composed", [transforms.Compose, v2.Compose, lambda parts: parts[0]])
@pytest.mark.parametrize("hostile", [Unwilling, NoFunction])
def test_a_transform_that_does_not_tell_its_name_is_called_as_without_the_watch(hostile, composed, workers):
    loader = DataLoader(Pictures(composed([hostile(), Quick()])), batch_size=4, num_workers=workers)
    (seen, (found,)), plain = watched(loader), list(loader)
    assert len(seen) == len(plain) == 10
    assert all(torch.equal(batch[0], expected[0]) for batch, expected in zip(seen, plain, strict=True))
    assert stages(found)[hostile.__name__].calls == 4 * found.batches


def test_an_iterator_that_outlives_the_cell_is_not_watched_any_more():
    loader = DataLoader(Pictures(Quick()), batch_size=4)
    with PhaseMarks(ranges="off") as marks, LoaderWatch(marks) as watch:
        iterator = iter(loader)
        next(iterator)
    assert watch.found({})[0].batches == 1
    assert "fetch" not in vars(iterator._dataset_fetcher)
    assert len(list(iterator)) == 9


def test_a_single_transform_is_timed_in_wrapped_data_sets_too():
    dataset = ConcatDataset(
        [Subset(Pictures(Slow()), range(8)), Pictures(partial(brighten, by=1.0), count=8)]
    )
    assert set(stages(only(DataLoader(dataset, batch_size=4)))) == {
        "Slow",
        "brighten",
        "reading",
        "collating",
    }


def test_transforms_of_a_torchvision_data_set_are_timed_once():
    fake = datasets.FakeData(
        size=16, image_size=(1, 8, 8), transform=transforms.ToTensor(), target_transform=abs
    )
    named = stages(only(DataLoader(fake, batch_size=4)))
    assert set(named) == {"ToTensor", "abs", "reading", "collating"}
    assert named["ToTensor"].calls == named["abs"].calls == 4 * 3


def test_a_compose_inside_another_counts_its_transforms_once():
    nested = transforms.Compose([transforms.Compose([Slow()]), Quick()])
    found = only(DataLoader(Pictures(nested), batch_size=4))
    assert set(stages(found)) == {"Compose", "Slow", "Quick", "reading", "collating"}
    assert sum(stage.share for stage in found.stages) == pytest.approx(1)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stream_is_timed(workers):
    loader = DataLoader(Stream(transforms.Compose([Slow()])), batch_size=4, num_workers=workers)
    batches, (found,) = watched(loader)
    assert len(batches) == 6
    assert stages(found)["Slow"].calls == 4 * found.batches


class KeepsItsTransform(Stream):
    """Takes its attribute into a variable, as generators do."""

    def __iter__(self):
        transform = self.transform
        for number in range(self.count):
            yield transform(torch.zeros(1)), number, type(transform) is TimedCall


@pytest.mark.parametrize("workers", [0, 2])
def test_a_generator_that_keeps_its_transform_keeps_its_own_and_the_report_says_what_is_not_measured(workers):
    loader = DataLoader(KeepsItsTransform(Slow()), batch_size=4, num_workers=workers)
    batches, (found,) = watched(loader)
    assert not any(flag.any() for *_, flag in batches)
    assert set(stages(found)) == {"reading", "collating"}
    assert "not measured" in str(found)


def test_a_kept_transform_whose_fetch_is_over_is_called_straight_through():
    kept = []

    class Keeps(Pictures):
        def __getitem__(self, index):
            kept.append(self.transform)
            return super().__getitem__(index)

    watched(DataLoader(Keeps(Quick()), batch_size=4))
    (timed, *_) = [transform for transform in kept if type(transform) is TimedCall]
    before = dict(timed._clock.stages)
    assert timed(3) == 6
    assert timed._clock.stages == before


@pytest.mark.parametrize("workers", [0, 2])
def test_only_the_first_batches_of_each_process_are_measured(workers):
    loader = DataLoader(Pictures(Quick(), count=400), batch_size=4, num_workers=workers)
    assert only(loader, epochs=2).batches == max(workers, 1) * (BATCHES - 1)


def test_persistent_workers_started_before_are_named_as_not_measured():
    loader = DataLoader(Pictures(Quick()), batch_size=4, num_workers=1, persistent_workers=True)
    list(loader)
    found = only(loader)
    assert "started before this cell" in found.not_measured
    assert "not measured" in str(found)


def test_persistent_workers_started_in_the_cell_are_measured_and_go_on_afterwards():
    loader = DataLoader(Pictures(Slow(), count=20), batch_size=4, num_workers=1, persistent_workers=True)
    assert only(loader, epochs=3).batches == BATCHES - 1
    assert len(list(loader)) == 5


def test_a_fresh_interpreter_as_worker_is_measured_too():
    dataset = TensorDataset(torch.arange(40.0))
    loader = DataLoader(dataset, batch_size=4, num_workers=1, multiprocessing_context="spawn")
    assert set(stages(only(loader))) == {"reading", "collating"}


def test_workers_that_an_acceleration_started_are_measured():
    loader = DataLoader(Pictures(Slow()), batch_size=4)
    with LoaderWorkers(n=1).apply(Replica(loaders={"loader": loader})):
        found = only(loader)
    assert found.workers == 1
    assert "Slow" in stages(found)


def test_a_loader_with_iterators_of_its_own_is_named_as_not_measured():
    class Foreign(DataLoader):
        def _get_iterator(self):
            return iter([1, 2])

    assert "iterators of its own" in only(Foreign(Pictures(), batch_size=4)).not_measured


def test_what_a_transform_raises_reaches_the_user_and_is_no_batch():
    def broken(image):
        raise ValueError("no such picture")

    loader = DataLoader(Pictures(broken), batch_size=4)
    with (
        pytest.raises(ValueError, match="no such picture"),
        PhaseMarks() as marks,
        LoaderWatch(marks) as watch,
    ):
        list(loader)
    (found,) = watch.found({"loader": loader})
    assert (found.batches, found.stages) == (0, ())
    assert "no batch was fetched" in found.not_measured
    assert loader.dataset.transform is broken


CELL = """
for images, labels in loader:
    optimizer.zero_grad()
    criterion(model(images), labels).backward()
    optimizer.step()
"""


def test_a_profile_names_the_slowest_transform():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 10))
    loader = DataLoader(Pictures(transforms.Compose([Quick(), Slow()])), batch_size=4)
    workbench = Workbench({
        "model": model, "loader": loader, "criterion": torch.nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
    }, spare_workers=0)  # fmt: skip
    try:
        profile = workbench.profile(CELL)
    finally:
        workbench.close()
    assert profile.loaders[0].loader == "loader"
    assert stages(profile.loaders[0])["Slow"].ms_per_sample > 2
    assert profile.loaders[0].stages[0].name in str(profile)
