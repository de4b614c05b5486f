"""Transforms of a whole batch do to each image what the same transform does to one, with numbers of its own."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from small_training import training, workload_of
from torch.utils.data import DataLoader, Subset, default_collate
from torchvision import transforms
from torchvision.transforms import v2
from training_on_pictures import Pictures, training_on, training_on_pictures, usual_transforms

from accel.accelerations import batched_images
from accel.accelerations.batched_transforms import BatchedTransforms
from accel.accelerations.cache_dataset import CacheDataset
from accel.accelerations.loader_workers import LoaderWorkers
from accel.accelerations.plan import Plan
from accel.machine import read_machine
from accel.workload import Replica

BYTES = torch.randint(0, 256, (6, 3, 20, 31), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
FLOATS = BYTES / 255
each_kind = pytest.mark.parametrize("images", [BYTES, FLOATS], ids=["bytes", "floats"])
each_version = pytest.mark.parametrize("version", [transforms, v2], ids=["v1", "v2"])


def in_batch(step, images):
    return batched_images.FORMS[type(step).__name__](step, images)


def reasons(transform, symmetric=True, **options):
    loader = DataLoader(Pictures(transform), **{"batch_size": 4} | options)
    workload = workload_of(Replica(loaders={"loader": loader}), {"loader": loader})
    return BatchedTransforms().why_not(workload, read_machine())


def batches(loader):
    torch.manual_seed(3)
    return [images for images, _ in loader]


@each_kind
@each_version
@pytest.mark.parametrize("name", ["RandomHorizontalFlip", "RandomVerticalFlip", "RandomGrayscale"])
def test_about_half_of_the_images_are_changed_each_as_it_would_be_alone(images, version, name):
    many = images.repeat(50, 1, 1, 1)
    torch.manual_seed(0)
    changed = in_batch(getattr(version, name)(p=0.5), many)
    alone = getattr(version, name)(p=1.0)(many)
    near = 1 if images.dtype == torch.uint8 else 1e-5
    is_changed = [torch.allclose(one, other, atol=near) for one, other in zip(changed, alone, strict=True)]
    as_before = [torch.equal(one, other) for one, other in zip(changed, many, strict=True)]
    assert all(a or b for a, b in zip(is_changed, as_before, strict=True))
    assert 110 < sum(is_changed) < 190


@each_kind
@each_version
@pytest.mark.parametrize("mode", ["NEAREST", "BILINEAR"])
@pytest.mark.parametrize("angle", [17.0, -40.0, 3.0])
def test_an_image_is_rotated_as_alone(images, version, mode, angle):
    interpolation = version.InterpolationMode[mode]
    step = version.RandomRotation((angle, angle), interpolation=interpolation)
    alone = v2.functional.rotate(images, angle, interpolation=interpolation)
    difference = (in_batch(step, images).double() - alone.double()).abs()
    assert (difference > (1 if images.dtype == torch.uint8 else 1e-4)).float().mean() < 0.001


@each_kind
@each_version
@pytest.mark.parametrize("size", [3, (5, 3)])
def test_an_image_is_blurred_as_alone(images, version, size):
    alone = v2.functional.gaussian_blur(images, size, [1.3, 1.3])
    got = in_batch(version.GaussianBlur(size, (1.3, 1.3)), images)
    assert torch.allclose(got.double(), alone.double(), atol=1 if images.dtype == torch.uint8 else 1e-5)


@each_version
@pytest.mark.parametrize("padding", [None, 2, (1, 2), (1, 2, 3, 0)])
def test_each_image_is_cropped_at_a_place_of_its_own(version, padding):
    many = torch.arange(20 * 31).view(1, 1, 20, 31).repeat(40, 1, 1, 1) + 1
    torch.manual_seed(0)
    cropped = in_batch(version.RandomCrop((10, 12), padding=padding), many)
    whole = v2.functional.pad(many[0], list(padding) if isinstance(padding, tuple) else padding or 0)
    places = [
        [(top, left) for top in range(whole.shape[1] - 9) for left in range(whole.shape[2] - 11)
         if torch.equal(whole[:, top : top + 10, left : left + 12], image)]
        for image in cropped
    ]  # fmt: skip
    assert all(places)
    assert len({place[0] for place in places}) > 20


def test_random_numbers_differ_from_image_to_image():
    same = BYTES[:1].repeat(8, 1, 1, 1)
    for step in (v2.RandomRotation(20), v2.GaussianBlur(3), v2.RandomCrop(10)):
        assert len({image.numpy().tobytes() for image in in_batch(step, same)}) == 8


def test_what_follows_to_tensor_gives_the_same_numbers():
    normalise = transforms.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
    for version in (transforms, v2):
        made = training_on(
            Pictures(version.Compose([transforms.CenterCrop(8), version.ToTensor(), normalise]))
        )
        usual = batches(made.loader)
        with BatchedTransforms().apply(made.replica()):
            assert made.loader.dataset.transform.transforms[0] is batched_images.image_as_tensor
            assert all(map(torch.equal, batches(made.loader), usual))


def test_resizing_tensors_differs_from_pil_by_one_step_of_255():
    made = training_on(Pictures(transforms.Compose([transforms.Resize(8), transforms.ToTensor()])))
    usual = batches(made.loader)
    with BatchedTransforms().apply(made.replica()):
        for one, other in zip(batches(made.loader), usual, strict=True):
            assert (one - other).abs().max() < 1.5 / 255


class DifferentSizes(Pictures):
    def __getitem__(self, index):
        image = Image.fromarray(self.pixels[index]).resize((12 + index, 14))
        return {"number": index, "image": self.transform(image)}, index % 5


def test_sizes_are_made_equal_first_and_images_in_dictionaries_are_found():
    steps = [
        transforms.Resize(10),
        transforms.CenterCrop(8),
        transforms.ToTensor(),
        transforms.Normalize(0.5, 0.5),
    ]
    loader = DataLoader(DifferentSizes(transforms.Compose(steps)), batch_size=4, shuffle=True)
    usual = batches(loader)
    with BatchedTransforms().apply(Replica(loaders={"loader": loader})):
        assert [type(step).__name__ for step in loader.collate_fn.collate.steps] == ["ToTensor", "Normalize"]
        for one, other in zip(batches(loader), usual, strict=True):
            assert torch.equal(one["image"], other["image"])
            assert torch.equal(one["number"], other["number"])


def test_an_image_of_another_size_that_nobody_saw_before_ends_nothing():
    class OneIsOdd(Pictures):
        def __getitem__(self, index):
            size = 20 if index == 700 else 12
            return self.transform(Image.fromarray(self.pixels[index]).resize((size, size))), 0

    data = OneIsOdd(transforms.Compose([transforms.CenterCrop(8), transforms.ToTensor()]), count=1500)
    loader = DataLoader(Subset(data, range(690, 1500)), batch_size=20)
    usual = batches(loader)
    with BatchedTransforms().apply(Replica(loaders={"loader": loader})):
        assert loader.collate_fn.collate.steps == data.transform.transforms
        assert all(map(torch.equal, batches(loader), usual))


def test_a_collate_fn_of_the_users_own_gets_transformed_samples():
    def halved(samples):
        return [each / 2 if each.is_floating_point() else each for each in default_collate(samples)]

    steps = transforms.Compose([transforms.CenterCrop(8), transforms.ToTensor()])
    loader = DataLoader(Pictures(steps), batch_size=4, collate_fn=halved)
    usual = batches(loader)
    with BatchedTransforms().apply(Replica(loaders={"loader": loader})):
        assert all(map(torch.equal, batches(loader), usual))
    assert loader.collate_fn is halved


def test_two_loaders_of_one_data_set_do_not_take_its_transforms_twice():
    pictures = Pictures(usual_transforms())
    one, two = DataLoader(pictures, batch_size=4), DataLoader(pictures, batch_size=3)
    usual = batches(one), batches(two)
    with (
        BatchedTransforms().apply(Replica(loaders={"one": one})),
        BatchedTransforms().apply(Replica(loaders={"two": two})),
    ):
        for got, expected in zip((batches(one), batches(two)), usual, strict=True):
            assert all((a - b).abs().max() < 0.05 for a, b in zip(got, expected, strict=True))
    assert one.dataset is two.dataset is pictures


@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_workers_do_it_and_the_proof_counts_there(context):
    made = training_on(Pictures(usual_transforms()), num_workers=2, multiprocessing_context=context)
    with BatchedTransforms().apply(made.replica()):
        assert len(list(made.loader)) == 3
        proof = BatchedTransforms().took_effect(made.replica())
    assert (proof.took_effect, proof.evidence) == (True, "3 batches were transformed as a whole")


def test_copies_and_pickles_of_a_loader_give_the_same_batches():
    made = training_on_pictures()
    with BatchedTransforms().apply(made.replica()):
        usual = batches(made.loader)
        for copied in (copy.deepcopy(made.loader), pickle.loads(pickle.dumps(made.loader))):
            assert all(map(torch.equal, batches(copied), usual))


@pytest.mark.parametrize("turned", [False, True])
def test_with_cached_samples_and_workers_in_every_order(turned):
    entries = [CacheDataset(), LoaderWorkers(n=1), BatchedTransforms()]
    expected = training_on_pictures()
    with Plan(tuple(entries)).apply(expected.replica()):
        losses = expected.epochs(2)
        assert [proof.took_effect for _, proof in Plan(tuple(entries)).proofs(expected.replica())] == [
            True
        ] * 3
    plain = training_on_pictures()
    for entry in Plan(tuple(entries)).entries:
        exec(entry.as_code(plain.workload()), plain.namespace)
    assert plain.epochs(2) == losses
    if turned:
        entries.reverse()
    made = training_on_pictures()
    with entries[0].apply(made.replica()), entries[1].apply(made.replica()), entries[2].apply(made.replica()):
        assert len(list(made.loader)) == 3
    assert type(made.loader.dataset) is Pictures
    assert made.epochs() == training_on_pictures().epochs()


def test_reasons_name_the_first_transform_that_hinders():
    def brighter(image):
        return image

    assert (
        "brighter is the last transform" in reasons(transforms.Compose([transforms.ToTensor(), brighter]))[0]
    )
    assert "RandomResizedCrop" in reasons(transforms.RandomResizedCrop(8))[0]
    assert "RandomRotation" in reasons(transforms.RandomRotation(20, expand=True))[0]
    assert "RandomCrop" in reasons(transforms.RandomCrop(20, pad_if_needed=True))[0]
    assert "no tensors" in reasons(transforms.CenterCrop(8))[0]
    assert "no transforms" in reasons(None)[0]
    assert "one by one" in reasons(usual_transforms(), batch_size=None)[0]
    loader = training().loader
    workload = workload_of(Replica(loaders={"loader": loader}), {"loader": loader})
    assert "no transforms" in BatchedTransforms().why_not(workload, read_machine())[0]


def test_reasons_against_data_sets_that_do_not_fit():
    class After(Pictures):
        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            return image * 2, label

    class Palette(Pictures):
        def __getitem__(self, index):
            return self.transform(Image.fromarray(self.pixels[index]).convert("P")), 0

    def of(dataset):
        loader = DataLoader(dataset, batch_size=4)
        workload = workload_of(Replica(loaders={"loader": loader}), {"loader": loader})
        return BatchedTransforms().why_not(workload, read_machine())[0]

    assert "changes images after its transforms" in of(After(usual_transforms()))
    assert "grey or RGB" in of(Palette(transforms.ToTensor()))
    sizes = transforms.Compose([transforms.Resize(8), transforms.ToTensor()])
    assert "different sizes" in of(DifferentSizes(sizes))


def test_large_images_are_taken_in_pieces_that_fit_the_cache():
    def at_once(size):
        steps = transforms.Compose([transforms.Resize(size), transforms.ToTensor()])
        loader = DataLoader(Pictures(steps), batch_size=12)
        with BatchedTransforms().apply(Replica(loaders={"loader": loader})):
            assert next(iter(loader))[0].shape == (12, 3, size, size)
            return loader.collate_fn.collate.at_once

    assert at_once(8) > 1000
    assert at_once(224) == 6


def test_asking_draws_no_random_numbers():
    torch.manual_seed(0)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    assert reasons(usual_transforms()) == []
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]
