"""Data sets by name, from what is on this machine: nothing is downloaded, and nothing is replaced in silence."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch

from accel.errors import AccelError, UnknownName
from accel.labs.image_set import ImageSet

DatasetName = Literal["digits", "fashion_mnist", "cifar10", "synthetic"]
Shape = tuple[int, int, int]

DIGITS_FILE = Path(__file__).parent / "data" / "digits.npz"
DIGITS_FOR_TRAINING = 1600  # 25 batches of 64; the other 197 are for testing
GREY, COLOUR = (1, 28, 28), (3, 32, 32)


def load_dataset(
    name: DatasetName,
    *,
    train: bool = True,
    shape: Shape | None = None,
    root: str | Path = "data",
    fallback: Literal["digits", "synthetic"] | None = None,
) -> ImageSet:
    """A data set of the course by its name: "digits" comes with accel, the others are read from the folder `root`.

    >>> load_dataset("digits")
    digits: 1,600 images of 1×28×28, 10 classes
    >>> load_dataset("cifar10", root="/data", fallback="digits")       # where there is no CIFAR-10
    digits (cifar10 not available): 1,600 images of 3×32×32, 10 classes

    Without `fallback`, a missing data set is an error that names the files expected. With it, the replacement has the
    shape of the missing one, says so in its name, and warns. "synthetic" is made up: each class a pattern under noise.
    """
    if name not in get_args(DatasetName):
        raise UnknownName("data set", name, get_args(DatasetName))
    if name in MADE_HERE:
        return MADE_HERE[name](train=train, shape=shape or GREY)
    missing = missing_files(name, Path(root))
    if not missing:
        found = FROM_DISK[name].load(root, train=train)
        return found.shaped(shape) if shape else found
    if fallback is None:
        raise not_there(name, missing)
    return replacement(name, fallback, train=train, shape=shape)


def digits(*, train: bool, shape: Shape) -> ImageSet:
    """1,797 handwritten digits of 8×8 pixels, scaled to `shape`; data/digits.LICENSE.txt says where they are from."""
    with np.load(DIGITS_FILE) as archive:
        pixels, labels = torch.from_numpy(archive["images"]), torch.from_numpy(archive["labels"])
    full_scale = (pixels.float() * 255 / 16).round().to(torch.uint8)[:, None]
    everything = ImageSet("digits", full_scale, labels.long(), 10, 0.0, 1.0).shaped(shape)
    known = everything.images[
        :DIGITS_FOR_TRAINING
    ].float()  # the test images play no part in the standardisation
    part = slice(DIGITS_FOR_TRAINING) if train else slice(DIGITS_FOR_TRAINING, None)
    # clone: a slice would take the storage of all images along when it is pickled
    images, targets = everything.images[part].clone(), everything.labels[part].clone()
    return ImageSet("digits", images, targets, 10, known.mean().item(), known.std().item())


def synthetic(*, train: bool, shape: Shape) -> ImageSet:
    """2,000 images (500 for testing), the same each time: one pattern a class, under noise; learnable, but not real."""
    patterns = torch.randint(256, (10, *shape), generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1 if train else 2)
    labels = torch.randint(10, (2000 if train else 500,), generator=generator)
    noise = torch.randint(256, (len(labels), *shape), generator=generator)
    images = ((patterns[labels] + 3 * noise) // 4).to(torch.uint8)
    return ImageSet("synthetic", images, labels, 10, 127.5, 58.0)


def fashion_mnist(root: str | Path, *, train: bool) -> ImageSet:
    """Fashion-MNIST through torchvision; mean and deviation are those of its training images."""
    from torchvision.datasets import FashionMNIST

    raw = FashionMNIST(str(root), train=train, download=False)
    return ImageSet("fashion_mnist", raw.data[:, None], raw.targets, 10, 72.94, 90.02)


def cifar10(root: str | Path, *, train: bool) -> ImageSet:
    """CIFAR-10 through torchvision, which checks the files; mean and deviation over all three channels."""
    from torchvision.datasets import CIFAR10

    raw = CIFAR10(str(root), train=train, download=False)
    images = torch.from_numpy(raw.data).permute(0, 3, 1, 2).contiguous()
    return ImageSet("cifar10", images, torch.tensor(raw.targets), 10, 120.71, 64.15)


class OnDisk(NamedTuple):
    """A data set read from the user's folder: how, what its images look like, and which files that takes."""

    load: Callable[..., ImageSet]
    shape: Shape
    files: tuple[str, ...]


# torchvision wants the files of the test set for training too.
FROM_DISK: dict[str, OnDisk] = {
    "fashion_mnist": OnDisk(fashion_mnist, GREY, tuple(
        f"FashionMNIST/raw/{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
    )),
    "cifar10": OnDisk(cifar10, COLOUR, tuple(
        f"cifar-10-batches-py/{file}"
        for file in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta")
    )),
}  # fmt: skip
MADE_HERE: dict[str, Callable[..., ImageSet]] = {"digits": digits, "synthetic": synthetic}


def missing_files(name: str, root: Path) -> list[Path]:
    """The files of the data set that are not in `root`."""
    return [root / file for file in FROM_DISK[name].files if not (root / file).is_file()]


def not_there(name: str, missing: list[Path]) -> AccelError:
    """The error for a data set that is not on this machine: which files, in which folder, and what to do instead."""
    folder, files = missing[0].parent.absolute(), ", ".join(path.name for path in missing)
    return AccelError(
        f"load_dataset({name!r})",
        because=f"it is not on this machine: the folder {folder} lacks {files}",
        do=f"Put them there (unpacked, as torchvision stores them), give another root=, "
        f'or say load_dataset({name!r}, fallback="digits") to train on the digits that come with accel.',
    )


def replacement(
    name: str, fallback: Literal["digits", "synthetic"], *, train: bool, shape: Shape | None
) -> ImageSet:
    """Another data set in the shape of the missing one; its name and a warning say so."""
    found = load_dataset(fallback, train=train, shape=shape or FROM_DISK[name].shape)
    warnings.warn(f"{name} is not on this machine: using {fallback} in its place", stacklevel=3)
    return replace(found, name=f"{fallback} ({name} not available)")
