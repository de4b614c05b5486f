"""What samples of a data set are like, found by reading a few: which transforms are random, what a sample holds."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from accel.accelerations.dataset_transforms import steps_of, with_transform

RANDOM_BY_NAME = ("Random", "ColorJitter", "GaussianBlur", "GaussianNoise", "AutoAugment", "RandAugment",
                  "TrivialAugment", "AugMix", "ElasticTransform", "MixUp", "CutMix", "ScaleJitter")  # fmt: skip


class Steps:
    """Transforms one after the other; it remembers the last image that came out."""

    def __init__(self, steps: Sequence[Callable[[Any], Any]]) -> None:
        self.steps = steps
        self.last: Any = None

    def __call__(self, image: Any) -> Any:
        for step in self.steps:
            image = step(image)
        self.last = image
        return image


class _Seen(BaseException):
    """Ends the reading of a sample once its image is known: what comes after may not know what to do with it."""


def untransformed(dataset: Any, index: int) -> Any:
    """What the data set gives to its transform for one sample."""
    seen: list[Any] = []

    def catch(image: Any) -> Any:
        seen.append(image)
        raise _Seen

    with suppress(_Seen):
        with_transform(dataset, catch)[index]
    return seen[0] if seen else None


def position_of_image(dataset: Any, index: int = 0) -> int | None:
    """Which part of a sample comes out of the transform, None if something is done to it afterwards."""
    from torch.utils._pytree import tree_leaves

    steps = Steps(steps_of(dataset))
    parts = tree_leaves(with_transform(dataset, steps)[index])
    return next((place for place, part in enumerate(parts) if part is steps.last), None)


@contextmanager
def nothing_drawn() -> Iterator[None]:
    """Put the random number generators back afterwards, as if nothing had been drawn."""
    from accel.workload.shipping import generator_states, restore_generators

    states = generator_states()
    try:
        yield
    finally:
        restore_generators(states)


def is_random(function: Callable[[], Any]) -> bool:
    """Whether a function draws random numbers, or gives another result the second time."""
    from accel.accelerations.batches_ahead import random_number_state

    before = random_number_state()
    first = function()
    drew = random_number_state() != before
    return drew or not _equal(first, function())


def first_random_step(steps: Sequence[Any], images: Sequence[Any]) -> int:
    """The index of the first transform that is random, found by running them; the number of transforms if none is."""
    import torch

    with nothing_drawn():
        torch.manual_seed(0)
        random.seed(0)
        for number, step in enumerate(steps):
            kind = getattr(step, "__name__", type(step).__name__)
            # RandomCrop of an image of that size draws nothing, and is random all the same.
            if kind.startswith(RANDOM_BY_NAME) or any(
                is_random(partial(_on_copy, step, image)) for image in images
            ):
                return number
            images = [_on_copy(step, image) for image in images]
    return len(steps)


def _on_copy(step: Any, image: Any) -> Any:
    return step(copy.deepcopy(image))  # some transforms work in place


def name_of_step(step: Any) -> str:
    """What a reader calls a transform."""
    return getattr(step, "__name__", None) or type(step).__name__


def spread(count: int, wanted: int) -> list[int]:
    """A few indices below `count`, first and last among them.

    >>> spread(1000, 3)
    [0, 500, 999]
    """
    return sorted({round(part * (count - 1) / (wanted - 1)) for part in range(wanted)})


def _equal(one: Any, other: Any) -> bool:
    import numpy
    import torch
    from torch.utils._pytree import tree_flatten

    parts, structure = tree_flatten(one)
    others, other_structure = tree_flatten(other)
    if structure != other_structure:
        return False
    for part, again in zip(parts, others, strict=True):
        if isinstance(part, torch.Tensor) and isinstance(again, torch.Tensor):
            same = part.shape == again.shape and torch.equal(part.nan_to_num(), again.nan_to_num())
        elif isinstance(part, str):
            same = part == again
        else:
            same = numpy.array_equal(numpy.asarray(part), numpy.asarray(again))
        if not same:
            return False
    return True
