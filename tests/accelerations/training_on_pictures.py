"""A training whose images are pictures with transforms, one of them random; mirrored, the pictures are as they were."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from PIL import Image
from small_training import Training, training
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms


class Pictures(Dataset):
    """Twelve symmetric pictures of 12×12, so that a flip draws a random number and changes nothing."""

    def __init__(self, transform=None, count=12, symmetric=True):
        half = np.random.default_rng(0).integers(0, 256, (count, 12, 6, 3), dtype=np.uint8)
        other = half[:, :, ::-1] if symmetric else 255 - half
        self.pixels = np.concatenate([half, other], axis=2)
        self.transform = transform
        self.reads = 0

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, index):
        self.reads += 1
        image = Image.fromarray(self.pixels[index])
        return (self.transform(image) if self.transform else image), index % 5


def usual_transforms():
    return transforms.Compose(
        [
            transforms.Resize(8),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)),
        ]
    )


def training_on(dataset, steps_before=0, **options) -> Training:
    """The small training on another data set, which gives images of 3×8×8."""
    made = training()
    made.loader = DataLoader(dataset, batch_size=4, shuffle=True, **options)
    made.built_by = partial(training_on, dataset, **options)
    if steps_before:
        made.epochs(steps_before)
    return made


def training_on_pictures(steps_before=0) -> Training:
    made = training_on(Pictures(usual_transforms()), steps_before)
    made.built_by = training_on_pictures
    return made


def without_random_numbers(function):
    """Run, and put torch's generator back."""
    with torch.random.fork_rng(devices=[]):
        return function()
