"""Randomness from generators that a transform or data set keeps for itself: seen, and left as it was."""

from __future__ import annotations

import functools
import os
import random

import numpy as np
import pytest
import torch
from PIL import Image
from small_training import workload_of
from torch.utils.data import DataLoader
from torchvision import transforms
from training_on_pictures import Pictures

from accel.accelerations.batched_transforms import BatchedTransforms
from accel.accelerations.cache_dataset import CacheDataset
from accel.machine import read_machine
from accel.techniques.data.own_generators import fingerprint, own_generators, put_back, state_of
from accel.workload import Replica

GENERATORS = {
    "numpy": lambda: np.random.default_rng(0),
    "numpy's old one": lambda: np.random.RandomState(0),
    "numpy's bits": lambda: np.random.PCG64(0),
    "torch": lambda: torch.Generator().manual_seed(0),
    "python": lambda: random.Random(0),
}
each_kind = pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)


class OfItsOwn:
    """A flip that draws only from a generator of its own, and only rarely flips."""

    def __init__(self, rng):
        self.rng = rng

    def __call__(self, image):
        return image.flip(-1) if self.rng.random() < 0.02 else image


class InSlots:
    __slots__ = ("rng",)

    def __init__(self, rng):
        self.rng = rng

    def __call__(self, image):
        return image.flip(-1) if self.rng.random() < 0.02 else image


def of_its_class(rng):
    class OfItsClass:
        rngs = (rng,)

        def __call__(self, image):
            return image.flip(-1) if self.rngs[0].random() < 0.02 else image

    return OfItsClass()


def in_a_closure(rng):
    return lambda image: image.flip(-1) if rng.random() < 0.02 else image


def in_a_partial(rng):
    return functools.partial(
        lambda image, given: image.flip(-1) if given.random() < 0.02 else image, given=rng
    )


def among_the_globals(rng):
    namespace = {"RNG": rng, "__name__": "__main__"}
    exec(
        "class Flip:\n    def __call__(self, image):\n        return [image.flip(-1) if RNG.random() < 0.02 else image][0]",
        namespace,
    )
    return namespace["Flip"]()


HOLDERS = [OfItsOwn, InSlots, of_its_class, in_a_closure, in_a_partial, among_the_globals]
each_holder = pytest.mark.parametrize("hold", HOLDERS, ids=lambda hold: hold.__name__)


def asked(entry, dataset):
    loader = DataLoader(dataset, batch_size=4)
    workload = workload_of(Replica(loaders={"loader": loader}), {"loader": loader})
    return entry.why_not(workload, read_machine())


@each_holder
def test_a_transform_with_a_generator_of_its_own_is_never_kept(hold):
    """Kept, a picture would be flipped for ever or never."""
    pictures = Pictures(
        transforms.Compose([transforms.ToTensor(), hold(np.random.default_rng(5))]), symmetric=False
    )
    loader = DataLoader(pictures, batch_size=12)
    with CacheDataset().apply(Replica(loaders={"loader": loader})):
        assert len({images.sum(-2).numpy().tobytes() for _ in range(40) for images, _ in loader}) > 2
    assert "is random" in str(asked(CacheDataset(what="device"), pictures)[0])


@each_holder
@each_kind
def test_generators_are_found_wherever_they_are_held_and_put_back(make, hold):
    generator = make()
    holder = hold(generator)
    (found,) = own_generators([{"deep": holder}])
    assert found is generator
    before, state = fingerprint([generator]), state_of(generator)
    drawn = _draw(generator)
    assert fingerprint([generator]) != before
    put_back(generator, state)
    assert fingerprint([generator]) == before
    assert _draw(generator) == drawn


def _draw(generator):
    if isinstance(generator, torch.Generator):
        return torch.rand((), generator=generator).item()
    return generator.random_raw() if hasattr(generator, "random_raw") else generator.random()


@pytest.mark.parametrize("entry", [CacheDataset(), BatchedTransforms()], ids=lambda entry: entry.name)
def test_asking_leaves_the_users_own_generators_as_they_were(entry):
    class Shaken(Pictures):
        def __init__(self, rng):
            super().__init__(
                transforms.Compose([OfItsOwn(rng), transforms.CenterCrop(8), transforms.ToTensor()])
            )
            self.rng = rng

        def __getitem__(self, index):
            shift = self.rng.integers(0, 2)
            return self.transform(Image.fromarray(np.roll(self.pixels[index], shift))), 0

    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    asked(entry, Shaken(rng))
    assert rng.bit_generator.state == before


def test_a_data_set_is_random_when_it_draws_not_when_it_only_holds_a_generator():
    class Split(Pictures):
        def __init__(self, draws):
            super().__init__(transforms.ToTensor())
            self.rng, self.draws = np.random.default_rng(0), draws
            self.rng.shuffle(self.pixels)

        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            return (image, label) if not self.draws or self.rng.random() > 0.01 else (image, label + 1)

    assert asked(CacheDataset(), Split(draws=False)) == []
    assert "is random where it reads" in str(asked(CacheDataset(), Split(draws=True))[0])


def test_randomness_of_unknown_origin_is_found_by_repeating():
    def coin(image):
        return image.flip(-1) if os.urandom(1)[0] < 128 else image

    pictures = Pictures(transforms.Compose([transforms.ToTensor(), coin]), symmetric=False)
    assert "coin" in str(asked(CacheDataset(what="device"), pictures)[0])


def test_a_million_file_names_are_not_searched_one_by_one():
    class Names(list):
        taken = 0

        def __iter__(self):
            for each in super().__iter__():
                Names.taken += 1
                yield each

    pictures = Pictures(transforms.ToTensor())
    pictures.samples = Names(f"picture {number}.jpg" for number in range(1_000_000))
    assert own_generators(pictures) == []
    assert 0 < Names.taken < 100
