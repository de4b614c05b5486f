"""What samples of a data set are like, found by reading a few: which transforms are random, what a sample holds."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from accel.errors import Reason
from accel.techniques.data.dataset_transforms import steps_of, with_transform
from accel.techniques.data.loader_iterators import keeps_own_workers
from accel.techniques.data.own_generators import fingerprint, own_generators, put_back, state_of

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

RANDOM_BY_NAME = ("Random", "ColorJitter", "GaussianBlur", "GaussianNoise", "AutoAugment", "RandAugment",
                  "TrivialAugment", "AugMix", "ElasticTransform", "MixUp", "CutMix", "ScaleJitter")  # fmt: skip
_REPEATS = 25  # what changes every tenth sample, with numbers of unknown origin, shows in 93 of 100 probes
_SECONDS = 0.1  # for these repeats; one is made in any case


class TransformsInTurn:
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

    steps = TransformsInTurn(steps_of(dataset))
    parts = tree_leaves(with_transform(dataset, steps)[index])
    return next((place for place, part in enumerate(parts) if part is steps.last), None)


@contextmanager
def nothing_drawn(*things: Any) -> Iterator[None]:
    """Put the random number generators back afterwards, those that these things hold too, as if nothing had been drawn."""
    from accel.workload.generators import generator_states, restore_generators

    states, own = generator_states(), [(each, state_of(each)) for each in own_generators(*things)]
    try:
        yield
    finally:
        restore_generators(states)
        for generator, state in own:
            put_back(generator, state)


def is_random(function: Callable[[], Any], thing: Any = None) -> bool:
    """Whether a function draws random numbers, also from generators that `thing` holds, or gives different results."""
    from accel.techniques.data.batches_ahead import random_number_state

    own, until = own_generators(thing), time.monotonic() + _SECONDS
    before = random_number_state(), fingerprint(own)
    first = function()
    if (random_number_state(), fingerprint(own)) != before:
        return True
    for _ in range(_REPEATS):
        if not _equal(first, function()):
            return True
        if time.monotonic() > until:
            break
    return False


def first_random_step(steps: Sequence[Any], images: Sequence[Any]) -> int:
    """The index of the first transform that is random, found by running them; the number of transforms if none is.

    One with a generator of its own is random, whatever it did with these images; so is RandomCrop of an image of that size.
    """
    with nothing_drawn(steps):
        for number, step in enumerate(steps):
            if name_of_step(step).startswith(RANDOM_BY_NAME) or own_generators(step):
                return number
            if any(is_random(partial(on_copy, step, image)) for image in images):
                return number
            images = [on_copy(step, image) for image in images]
    return len(steps)


def on_copy(step: Any, image: Any) -> Any:
    """What a transform makes of an image, which stays as it is."""
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


def size_of(image: Any) -> tuple[Any, ...] | None:
    """Channels and sides of a tensor or picture; None for what cannot become a batch."""
    import torch

    if isinstance(image, torch.Tensor):
        return tuple(image.shape) if image.dim() == 3 and image.device.type == "cpu" else None
    return (image.mode, *image.size) if getattr(image, "mode", None) in ("L", "RGB") else None


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


def why_not_read(name: str, loader: DataLoader[Any]) -> list[Reason]:
    """The reason against a loader whose samples have no index, or whose worker processes have their data already.

    >>> why_not_read("loader", loader)
    []
    """
    from torch.utils.data import IterableDataset

    dataset: Any = loader.dataset
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        return [
            Reason(
                f"The data set of {name} has no samples with an index and a number of them",
                "Use a data set with __getitem__ and __len__, or leave this off.",
            )
        ]
    if not len(dataset):
        return [Reason(f"The data set of {name} is empty", "Leave this off.")]
    if keeps_own_workers(loader):
        return [
            Reason(
                f"{name} keeps worker processes of its own (persistent_workers=True), which have their data already",
                "Build it without, or leave this off.",
            )
        ]
    return []


def unreadable(name: str, error: Exception) -> Reason:
    """The reason where the user's own data set or transforms raise."""
    return Reason(
        f"A sample of {name} could not be read ({type(error).__name__}: {error})",
        f"Look at what {name}.dataset[0] gives, or leave this off.",
    )
