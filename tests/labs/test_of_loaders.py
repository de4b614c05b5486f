"""Checks of data pipelines: a right loader, cache and pipeline pass; the likely mistakes are named."""

from __future__ import annotations

import copy
import time

import pytest
import torch
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T

from accel.errors import AccelError
from accel.labs.exercises.of_loaders import remembers, waiting_below
from accel.labs.exercises.of_transforms import same_picture_faster

MOST = 0.10
ON_A_BUSY_MACHINE = 0.3  # of a step spent waiting; without workers the share is 0.45


class Slow(Dataset):
    """Samples that take 5 ms each, by waiting, as from a network drive; each is augmented."""

    def __init__(self, scale=1.0, frozen=False, seconds=0.005):
        self.scale, self.frozen, self.seconds = scale, frozen, seconds

    def __len__(self):
        return 24

    def __getitem__(self, index):
        time.sleep(self.seconds)
        noise = torch.zeros(3) if self.frozen else torch.rand(3)
        return self.scale * (index + noise), index % 10


def loader_of(dataset, workers=0, shuffle=True, batch=4):
    kept = {"persistent_workers": True, "multiprocessing_context": "fork"} if workers else {}
    return DataLoader(dataset, batch, shuffle=shuffle, num_workers=workers, **kept)


def test_workers_that_keep_up_pass():
    samples = Slow(seconds=0.06)  # long, so that what a busy machine delays is a small share
    seen = waiting_below(loader_of(samples), loader_of(samples, workers=4), most=ON_A_BUSY_MACHINE)
    assert seen.passed, seen
    assert seen.figures["waiting"] < ON_A_BUSY_MACHINE


def test_a_loader_without_workers_waits_and_the_hint_names_other_processes():
    samples = Slow(seconds=0.02)  # long, as above: expected are 1 / 2.2 of a step
    seen = waiting_below(loader_of(samples), loader_of(samples), most=MOST)
    assert not seen.passed
    assert seen.figures["waiting"] > MOST
    assert "Other processes" in seen.hint


def test_workers_that_do_not_keep_up_are_told_from_none():
    seen = waiting_below(loader_of(Slow()), loader_of(Slow(seconds=0.06), workers=1), most=MOST)
    assert not seen.passed
    assert "do not keep up" in seen.hint


@pytest.mark.parametrize(
    ("other", "hint"),
    [
        (lambda: loader_of(Slow(frozen=True), workers=2), "before the first random transform"),
        (lambda: loader_of(Slow(scale=0.5), workers=2), "leave every transform in"),
        (lambda: loader_of(Slow(), shuffle=False), "shuffle=True"),
        (lambda: loader_of(Slow(), batch=8), "batch size"),
    ],
    ids=["frozen", "other samples", "not shuffled", "other batches"],
)
def test_a_loader_that_shows_the_model_something_else_fails(other, hint):
    seen = waiting_below(loader_of(Slow()), other(), most=MOST)
    assert not seen.passed
    assert hint in seen.hint


def test_the_check_leaves_random_numbers_as_they_were():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    remembers(Eager)
    assert torch.rand(1) == expected


def test_other_work_than_a_loader_is_refused():
    with pytest.raises(AccelError, match="two DataLoaders"):
        waiting_below(loader_of(Slow()), [1, 2], most=MOST)


class Eager(Dataset):
    """Reads all when it is built."""

    def __init__(self, source, augment):
        self.kept, self.augment = [source[index] for index in range(len(source))], augment

    def __len__(self):
        return len(self.kept)

    def __getitem__(self, index):
        picture, label = self.kept[index]
        return self.augment(picture), label


class Forgetful(Eager):
    """Reads again and again."""

    def __init__(self, source, augment):
        self.kept, self.augment = source, augment


class Lazy(Forgetful):
    """Keeps what was read in a dict, which each worker has for itself."""

    def __init__(self, source, augment):
        super().__init__(source, augment)
        self.known = {}

    def __getitem__(self, index):
        if index not in self.known:
            self.known[index] = self.kept[index]
        picture, label = self.known[index]
        return self.augment(picture), label


class Frozen(Eager):
    """Keeps augmented pictures."""

    def __init__(self, source, augment):
        super().__init__(source, augment)
        self.kept = [(augment(picture), label) for picture, label in self.kept]
        self.augment = lambda picture: picture


class Bare(Eager):
    """Leaves the augmentation out."""

    def __getitem__(self, index):
        return self.kept[index]


class WrongLabels(Eager):
    """Gives index and label mixed up."""

    def __getitem__(self, index):
        return super().__getitem__(index)[0], -1


def test_a_cache_that_is_filled_when_it_is_built_passes():
    assert remembers(Eager).passed


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (Forgetful, "look there first"),
        (Lazy, "when the data set is built"),
        (Frozen, "before `augment`"),
        (Bare, "before `augment`"),
        (WrongLabels, "(augment(picture), label)"),
    ],
)
def test_each_mistake_of_a_cache_has_its_hint(wrong, hint):
    seen = remembers(wrong)
    assert not seen.passed
    assert hint in seen.hint


def test_something_that_is_no_class_is_refused():
    with pytest.raises(AccelError, match="Pass the class itself"):
        remembers(3)


NORMALISE = T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
LINEAR = T.Lambda(lambda picture: ((picture + 0.055) / 1.055) ** 2.4)
GIVEN = T.Compose([T.ToTensor(), LINEAR, NORMALISE, T.Resize(255), T.CenterCrop(224)])


def test_a_pipeline_that_is_small_first_passes():
    threads = torch.get_num_threads()
    faster = T.Compose([T.Resize(255), T.CenterCrop(224), T.ToTensor(), LINEAR, NORMALISE])
    seen = same_picture_faster(GIVEN, faster, at_least=2.0)
    assert seen.passed, seen
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("steps", "hint"),
    [
        (GIVEN.transforms, "two million pixels"),
        (
            [T.CenterCrop(224), T.Resize(255), T.CenterCrop(224), T.ToTensor(), LINEAR, NORMALISE],
            "Another part",
        ),
        ([T.Resize(255), T.CenterCrop(224), T.ToTensor(), LINEAR], "a step is missing"),
        ([T.Resize(255), T.CenterCrop(224), T.ToTensor(), NORMALISE], "a step is missing"),
        ([T.Resize(255), T.ToTensor(), LINEAR, NORMALISE], "shape and dtype"),
        ([T.Resize(255), T.CenterCrop(224)], "shape and dtype"),
    ],
    ids=["as given", "crop first", "no normalisation", "no brightness", "no crop", "no tensor"],
)
def test_each_mistake_of_a_pipeline_has_its_hint(steps, hint):
    seen = same_picture_faster(GIVEN, T.Compose(steps), at_least=2.0)
    assert not seen.passed
    assert hint in seen.hint


class Copied(Dataset):
    """Reads a copy of its source, where no reading is counted."""

    def __init__(self, source, augment):
        self.source, self.augment = copy.deepcopy(source), augment

    def __len__(self):
        return len(self.source)

    def __getitem__(self, index):
        picture, label = self.source[index]
        return self.augment(picture), label


def test_a_copy_of_the_source_is_not_a_cache():
    seen = remembers(Copied)
    assert not seen.passed
    assert "not a copy" in seen.hint


def test_batches_that_are_put_together_in_another_way_do_not_pass():
    samples = Slow(seconds=0.0)
    empty = DataLoader(samples, 4, shuffle=True, collate_fn=lambda samples: None)
    seen = waiting_below(loader_of(samples), empty, most=MOST)
    assert not seen.passed
    assert "collate" in seen.hint


def test_a_picture_with_numbers_that_are_none_is_another_picture():
    pipeline = T.Compose([T.Resize(54), T.CenterCrop(48), T.ToTensor()])
    broken = T.Compose([*pipeline.transforms, T.Lambda(lambda picture: picture * float("nan"))])
    seen = same_picture_faster(pipeline, broken, at_least=2)
    assert not seen.passed
    assert "NaN" in seen.hint
