"""Transforms of a whole batch do to each image what the same transform does to one, with numbers of its own."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from small_training import training, workload_of
from torch.utils.data import DataLoader, Subset, TensorDataset, default_collate
from torchvision import transforms, tv_tensors
from torchvision.transforms import v2
from training_on_pictures import Pictures, training_on, training_on_pictures, usual_transforms

from accel.accelerations.batched_transforms import BatchedTransforms
from accel.accelerations.cache_dataset import CacheDataset
from accel.accelerations.loader_workers import LoaderWorkers
from accel.machine import read_machine
from accel.plans.plan import Plan
from accel.techniques.data import batched_images
from accel.techniques.data.transforms_of_a_batch import transforms_of_a_batch
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


@pytest.mark.parametrize("start_method", ["fork", "forkserver"])
def test_workers_do_it_and_the_proof_counts_there(start_method):
    made = training_on(Pictures(usual_transforms()), num_workers=2, multiprocessing_context=start_method)
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

    assert "brighter is the last transform" in str(
        reasons(transforms.Compose([transforms.ToTensor(), brighter]))[0]
    )
    assert "RandomResizedCrop" in str(reasons(transforms.RandomResizedCrop(8))[0])
    assert "RandomRotation" in str(reasons(transforms.RandomRotation(20, expand=True))[0])
    assert "RandomCrop" in str(reasons(transforms.RandomCrop(20, pad_if_needed=True))[0])
    assert "no tensors" in str(reasons(transforms.CenterCrop(8))[0])
    assert "no transforms" in str(reasons(None)[0])
    assert "one by one" in str(reasons(usual_transforms(), batch_size=None)[0])
    loader = training().loader
    workload = workload_of(Replica(loaders={"loader": loader}), {"loader": loader})
    assert "no transforms" in str(BatchedTransforms().why_not(workload, read_machine())[0])


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
        return BatchedTransforms().why_not(workload, read_machine())[0].because

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
            collate = loader.collate_fn.collate
            return collate.at_once(loader.dataset[0][0])

    assert at_once(8) > 1000
    assert at_once(224) == 6


def test_asking_draws_no_random_numbers():
    torch.manual_seed(0)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    assert reasons(usual_transforms()) == []
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]


class Coloured(Pictures):
    """Smooth pictures, as photographs are, of any size."""

    def __getitem__(self, index):
        image = Image.fromarray(self.pixels[index][:4, :4]).resize((40, 40), Image.Resampling.BICUBIC)
        return self.transform(image), index % 5


CANNOT = {
    "a fill of three numbers": [transforms.Pad(2, fill=(124, 116, 104)), transforms.ToTensor()],
    "a filter that only PIL has": [
        transforms.Resize(8, transforms.InterpolationMode.HAMMING),
        transforms.ToTensor(),
    ],
    "a type for images alone": [
        v2.ToImage(),
        v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True),
    ],
    "without the filter that PIL has": [transforms.Resize(8, antialias=False), transforms.ToTensor()],
}


@pytest.mark.parametrize("steps", CANNOT.values(), ids=CANNOT)
def test_what_does_something_else_to_tensors_stays_with_the_samples(steps):
    normalise = transforms.Normalize((0.5,) * 3, (0.25,) * 3)
    loader = DataLoader(Coloured(transforms.Compose([*steps, normalise])), batch_size=4)
    usual = batches(loader)
    with BatchedTransforms().apply(Replica(loaders={"loader": loader})):
        assert loader.collate_fn.collate.steps[-1] is normalise
        assert all(map(torch.equal, batches(loader), usual))


def test_a_last_transform_that_does_something_else_to_tensors_is_the_reason():
    (reason,) = reasons(v2.Compose(CANNOT["a type for images alone"]))
    assert reason.because.startswith(
        "ToDtype is the last transform of loader, and cannot be applied to a batch"
    )


def test_images_that_are_tensors_already_need_no_transform_that_makes_them():
    class Tensors(Pictures):
        def __getitem__(self, index):
            return self.transform(torch.from_numpy(self.pixels[index].transpose(2, 0, 1).copy())), 0

    loader = DataLoader(
        Tensors(v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.CenterCrop(8)])), batch_size=4
    )
    usual = batches(loader)
    with BatchedTransforms().apply(Replica(loaders={"loader": loader})):
        assert len(loader.collate_fn.collate.steps) == 2
        assert all(map(torch.equal, batches(loader), usual))


def test_a_cache_of_all_transforms_leaves_none_for_the_batch_and_the_plan_says_so():
    fixed = transforms.Compose([transforms.Resize(8), transforms.ToTensor()])
    made, plan = training_on(Pictures(fixed)), Plan((CacheDataset(), BatchedTransforms()))
    (reason,) = plan.why_not(made.workload(), read_machine())["batched_transforms"]
    assert "None of loader's transforms is random" in str(reason)
    of_other = Plan(plan.entries, on=(("cache_dataset", ("other",)),))
    assert "batched_transforms" not in of_other.why_not(made.workload(), read_machine())
    assert plan.why_not(training_on_pictures().workload(), read_machine()) == {}
    with CacheDataset().apply(made.replica()):
        assert BatchedTransforms().why_not(made.workload(), read_machine()) == [reason]


def test_behind_a_cache_the_exported_code_draws_what_the_live_plan_draws():
    """Pieces of a batch must not depend on which transforms a cache has taken."""

    def made():
        steps = [transforms.Resize(64), transforms.ToTensor(), transforms.RandomCrop(32)]
        return DataLoader(Pictures(transforms.Compose(steps), count=128, symmetric=False), batch_size=128)

    entries = Plan((CacheDataset(), BatchedTransforms())).entries
    live, plain = made(), made()
    with Plan(entries).apply(Replica(loaders={"loader": live})):
        expected = batches(live)
    workload = workload_of(Replica(loaders={"loader": plain}), {"loader": plain})
    for code in [entry.as_code(workload) for entry in entries]:
        exec(code, {"loader": plain})
    assert all(map(torch.equal, batches(plain), expected))


def test_code_that_runs_twice_transforms_once():
    once, twice = training_on_pictures(), training_on_pictures()
    code = BatchedTransforms().as_code(once.workload())
    exec(code, once.namespace)
    for _ in range(2):
        exec(code, twice.namespace)
    assert once.epochs(2) == twice.epochs(2)


def test_a_model_on_the_cpu_gets_its_images_there_on_a_machine_with_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    made = training_on_pictures()
    assert "cuda" not in BatchedTransforms().as_code(made.workload())
    with BatchedTransforms().apply(made.replica()):
        assert next(iter(made.loader))[0].device.type == "cpu"


def test_for_a_model_on_a_gpu_batches_are_finished_there():
    loader = training_on_pictures().loader
    assert transforms_of_a_batch(loader, "cuda:1").runs_on_gpu
    model = torch.nn.Linear(1, 1)
    workload = workload_of(Replica(models={"model": model}, loaders={"loader": loader}), {"loader": loader})
    code = BatchedTransforms().as_code(replace(workload, roles=workload.roles[1:], trains_on="cuda:1"))
    assert "device='cuda:1'" in code
    exec(code, namespace := {"loader": loader})
    assert namespace["_collate"].device == "cuda:1"
    namespace["_collate"].device = "cpu"  # what is not here
    images, _ = next(iter(loader))
    assert images.shape == (4, 3, 8, 8)
    assert images.dtype == torch.float32
    # What somebody else collates is left as it is.
    vars(loader).update(
        collate_fn=default_collate, dataset=TensorDataset(torch.ones(12, 3), torch.arange(12))
    )
    assert next(iter(loader))[0].shape == (4, 3)
