"""Ways in which keeping samples could quietly go wrong."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from small_training import training, workload_of
from torch.utils.data import DataLoader, Dataset, Subset, default_collate
from torchvision import transforms
from torchvision.transforms import v2
from training_on_pictures import Pictures, training_on, training_on_pictures, usual_transforms

from accel.accelerations.cache_dataset import CacheDataset
from accel.accelerations.loader_workers import LoaderWorkers
from accel.machine import read_machine
from accel.plans.plan import Plan
from accel.techniques.data.cached_samples import CachedSamples, from_array
from accel.workload import Replica

TO_TENSOR = [transforms.Resize(8), transforms.ToTensor()]
FIXED = transforms.Compose(TO_TENSOR)


def reasons(dataset, what="samples", machine=None, **options):
    loader = DataLoader(dataset, **{"batch_size": 4} | options)
    workload = workload_of(Replica(loaders={"loader": loader}), {"loader": loader})
    return CacheDataset(what=what).why_not(workload, machine or read_machine())


def batches(loader):
    torch.manual_seed(3)
    return [images for images, _ in loader]


def same(one, other):
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_each_sample_is_read_once():
    made = training_on(Pictures(FIXED))
    with CacheDataset().apply(made.replica()):
        before = made.loader.dataset.source.reads
        made.epochs(3)
        assert made.loader.dataset.source.reads - before == 12


@pytest.mark.parametrize("workers", [0, 2])
def test_random_transforms_stay_random_and_draw_what_they_drew(workers):
    """A cache behind a random transform would show each picture turned one way for ever."""
    random_at_end = transforms.Compose(
        [*TO_TENSOR, transforms.RandomHorizontalFlip(), transforms.RandomErasing(p=1.0)]
    )
    pictures = Pictures(random_at_end, symmetric=False)
    usual = training_on(pictures, num_workers=workers).epochs(3)
    made = training_on(pictures, num_workers=workers)
    with CacheDataset().apply(made.replica()):
        assert made.epochs(3) == usual
        assert len({batch.sum().item() for _ in range(3) for batch, _ in made.loader}) > 3


@pytest.mark.parametrize("start_method", ["fork", "forkserver"])
def test_worker_processes_fill_one_cache(start_method):
    made = training_on(Pictures(FIXED), num_workers=2, multiprocessing_context=start_method)
    usual = training_on(Pictures(FIXED)).epochs(2)
    with CacheDataset().apply(made.replica()):
        assert made.epochs(2) == usual
        assert int(made.loader.dataset.is_kept.sum()) == 12


def test_workers_kept_before_or_after_find_the_cache():
    usual = training_on(Pictures(usual_transforms()), num_workers=1).epochs(2)
    for first, second in ((CacheDataset(), LoaderWorkers(n=1)), (LoaderWorkers(n=1), CacheDataset())):
        made = training_on_pictures()
        with first.apply(made.replica()), second.apply(made.replica()):
            assert made.epochs(2) == usual
            assert CacheDataset().took_effect(made.replica()).took_effect
            assert LoaderWorkers(n=1).took_effect(made.replica()).took_effect
        assert type(made.loader.dataset) is Pictures


def test_a_transform_that_works_in_place_does_not_spoil_what_is_kept():
    inplace = transforms.Normalize((0.5,) * 3, (0.5,) * 3, inplace=True)
    pictures = Pictures(transforms.Compose([*TO_TENSOR, transforms.RandomVerticalFlip(p=0.0), inplace]))
    loader = DataLoader(pictures, batch_size=None)
    usual = batches(loader)
    with CacheDataset().apply(Replica(loaders={"loader": loader})):
        for _ in range(3):
            assert same(batches(loader), usual)


def test_the_users_data_set_is_left_as_it_is():
    pictures = Pictures(usual_transforms())
    made, before = training_on(pictures), dict(vars(pictures))
    with CacheDataset().apply(made.replica()):
        assert vars(pictures) | {"reads": 0} == before | {"reads": 0}
        assert made.loader.dataset.pixels is pictures.pixels
        assert len(made.loader.dataset) == 12


def test_a_subset_and_a_pair_of_transforms_are_seen_through():
    from torchvision.datasets import FakeData

    fake = FakeData(12, (3, 10, 10), 5, transform=usual_transforms())
    for what in (fake, Subset(fake, range(8))):
        loader = DataLoader(what, batch_size=4, shuffle=True)
        usual = batches(loader)
        with CacheDataset().apply(Replica(loaders={"loader": loader})):
            assert isinstance(loader.dataset, CachedSamples)
            assert len(loader.dataset.transform.transforms) == 3
            assert same(batches(loader), usual)
            assert same(batches(loader), usual)


class Odd(Dataset):
    """Samples of many kinds, the last of another shape."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        image = Image.fromarray(np.full((4, 5), 7 * index, dtype=np.uint8))
        strided = torch.arange(12.0).view(3, 4).t() + index
        return {"image": image, "strided": strided, "array": np.ones(2 + (index == 3)), "label": np.int64(index),
                "flag": index > 1, "share": 0.1 * index}  # fmt: skip


def test_samples_come_back_as_they_were_and_odd_ones_are_read_each_time():
    cached = CachedSamples(Odd())
    for _ in range(2):
        for index in range(4):
            got, expected = cached[index], Odd()[index]
            assert {key: type(value) for key, value in got.items()} == {
                k: type(v) for k, v in expected.items()
            }
            assert got["strided"].stride() == expected["strided"].stride()
            assert np.array_equal(got["image"], expected["image"])
            got["strided"].zero_()
            for key in ("strided", "array", "label", "flag", "share"):
                if key != "strided":
                    assert np.array_equal(got[key], expected[key])
        assert cached.is_kept.tolist() == [1, 1, 1, 2]


def test_copies_and_pickles_of_a_loader_with_a_cache_give_the_same_batches():
    made = training_on(Pictures(FIXED))
    usual = batches(made.loader)
    with CacheDataset().apply(made.replica()):
        made.epochs()
        for copied in (copy.deepcopy(made.loader), pickle.loads(pickle.dumps(made.loader))):
            assert same(batches(copied), usual)


def test_whole_batches_from_one_tensor_are_those_of_the_loader():
    made, usual = training_on(Pictures(FIXED)), training_on(Pictures(FIXED)).epochs(3)
    entry = CacheDataset(what="device")
    with entry.apply(made.replica()):
        assert made.epochs(3) == usual
        assert entry.took_effect(made.replica()).took_effect
    assert made.loader.collate_fn is default_collate
    with pytest.raises(Exception, match="exclude each other"):
        Plan((entry, LoaderWorkers()))
    plain = training_on(Pictures(FIXED))
    exec(entry.as_code(plain.workload()), plain.namespace)
    assert plain.epochs(3) == usual


def test_a_data_set_that_lies_in_memory_gains_only_from_whole_batches():
    tensors = training().loader.dataset
    assert "ready in memory" in str(reasons(tensors)[0])
    assert reasons(tensors, what="device") == []


def test_reasons_name_the_transform_that_is_random():
    jitter_first = v2.Compose([v2.ColorJitter(0.2), *TO_TENSOR])
    assert reasons(Pictures(transforms.RandomCrop(12)), what="device")[0].because.startswith("RandomCrop")
    assert "ColorJitter" in str(reasons(Pictures(jitter_first), what="device")[0])
    assert "RandomHorizontalFlip of loader is random" in str(
        reasons(Pictures(usual_transforms()), what="device")[0]
    )

    def shaken(image):
        return transforms.functional.to_tensor(image) + torch.rand(())

    assert reasons(Pictures(transforms.Compose([transforms.Resize(8), shaken]))) == []
    assert "shaken" in str(reasons(Pictures(shaken), what="device")[0])


def test_reasons_against_data_sets_that_are_random_themselves_or_cannot_be_kept():
    class Shaken(Pictures):
        def __getitem__(self, index):
            return FIXED(Image.fromarray(self.pixels[index])) + np.random.rand(), 0

    class Named(Pictures):
        def __getitem__(self, index):
            return FIXED(Image.fromarray(self.pixels[index])), f"picture {index}"

    class Broken(Pictures):
        def __getitem__(self, index):
            raise OSError("no such file")

    class After(Pictures):
        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            return image * 2, label

    assert "is random where it reads" in str(reasons(Shaken())[0])
    assert "a str" in str(reasons(Named())[0])
    assert "no such file" in str(reasons(Broken())[0])
    assert "changes images after its transforms" in str(reasons(After(usual_transforms()))[0])


def test_a_set_that_does_not_fit_is_refused_with_the_estimate():
    machine = dataclasses.replace(read_machine(), available_bytes=10_000)
    (reason,) = reasons(Pictures(FIXED), machine=machine)
    assert "12 samples of loader take about" in str(reason)


def test_asking_draws_no_random_numbers():
    torch.manual_seed(0)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    assert reasons(Pictures(usual_transforms())) == []
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]


def test_a_sample_that_shows_one_number_in_several_places_is_kept_and_given_again():
    grey = torch.arange(12.0).view(1, 3, 4)
    like = grey.expand(3, -1, -1)
    again = from_array(like.numpy(), like)
    assert torch.equal(again, like)
    again[0] += 1  # memory of its own
    assert torch.equal(again[1], grey[0])
