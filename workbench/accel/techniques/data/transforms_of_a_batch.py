"""Which of a data set's transforms can be applied to a whole batch: found by comparing that with one image after the other."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from accel.errors import Reason
from accel.techniques.data.dataset_transforms import steps_of
from accel.techniques.data.remembered_probes import remembered
from accel.techniques.data.sample_probe import (
    TransformsInTurn,
    name_of_step,
    nothing_drawn,
    on_copy,
    position_of_image,
    size_of,
    spread,
    untransformed,
)

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

EACH_ITS_OWN = ("RandomHorizontalFlip", "RandomVerticalFlip", "RandomGrayscale")
_RANDOM = (*EACH_ITS_OWN, "RandomCrop", "RandomRotation", "GaussianBlur")
_TAKE_A_BATCH = (
    "Normalize",
    "CenterCrop",
    "Resize",
    "Pad",
    "Grayscale",
    "ConvertImageDtype",
    "ToDtype",
    "Identity",
)
_FIX_THE_SIZE = (
    "CenterCrop",
    "RandomCrop",
    "Resize",
)  # a Resize to one number keeps the proportions: asked below
_MAKE_TENSORS = ("ToTensor", "PILToTensor", "ToImage")
_PROBED = 8  # samples whose sizes are compared; should another differ, its batch is transformed one by one
_NEAR = (
    2 / 255
)  # mean difference of two images, as a share of their range: PIL and torch resize alike to about half of it


class TransformsOfABatch(NamedTuple):
    """The transforms that stay with the samples, those that move to the batch, where in a sample the image is."""

    kept: list[Any]
    moved: list[Any]
    position: int
    values: int  # of an image when all is done
    runs_on_gpu: bool  # in the training process: the parts of a batch are where we look for them


class _Probe(NamedTuple):
    first: int
    position: int
    values: int
    has_text_before: bool  # in a sample: a batch has a list of texts, not one part


def transforms_of_a_batch(loader: DataLoader[Any], device: str) -> TransformsOfABatch | Reason:
    """Which transforms of a loader's data set can move, for a training on that device; or why none can ({name} is the loader).

    >>> transforms_of_a_batch(loader, "cpu").moved
    [ToTensor(), Normalize(mean=0.5, std=0.5)]
    """
    from torch.utils.data import default_collate

    probe = remembered(loader.dataset, "transforms of a batch", partial(_read, loader.dataset))
    if isinstance(probe, Reason):
        return probe
    steps, in_reach = (
        steps_of(loader.dataset),
        loader.collate_fn is default_collate and not probe.has_text_before,
    )
    return TransformsOfABatch(
        steps[: probe.first],
        steps[probe.first :],
        probe.position,
        probe.values,
        in_reach and device.startswith("cuda"),
    )


def _read(dataset: Any) -> _Probe | Reason:
    from torch.utils._pytree import tree_leaves

    steps = steps_of(dataset)
    if not steps:
        return Reason(
            "The data set of {name} has no transforms in an attribute `transform`",
            "Put them there, or leave this off.",
        )
    with nothing_drawn(dataset):
        pictures = [untransformed(dataset, index) for index in spread(len(dataset), _PROBED)]
        found = _first_that_can(steps, pictures)
        if isinstance(found, Reason):
            return found
        position, parts = position_of_image(dataset), tree_leaves(dataset[0])
    if position is None:
        return Reason(
            "The data set of {name} changes images after its transforms",
            "Move what it does into the transforms, or leave this off.",
        )
    has_text = any(isinstance(part, (str, bytes)) for part in parts[:position])
    return _Probe(found, position, parts[position].numel(), has_text)


def _first_that_can(steps: list[Any], pictures: list[Any]) -> int | Reason:
    """The first transform from which on all can be applied to a batch."""
    first = next((n + 1 for n in reversed(range(len(steps))) if not _may_take_a_batch(steps[n])), 0)
    while first < len(steps):
        images = [on_copy(TransformsInTurn(steps[:first]), picture) for picture in pictures]
        sizes = {size_of(image) for image in images}
        if len(sizes) > 1:
            fixing = [number for number in range(first, len(steps)) if _fixes_the_size(steps[number])]
            if not fixing or fixing[0] + 1 == len(steps):
                return Reason(
                    "The images of {name} have different sizes up to the end of its transforms",
                    "Put a CenterCrop, RandomCrop or Resize((height, width)) before the other transforms, "
                    "or leave this off.",
                )
            first = fixing[0] + 1
        elif sizes == {None}:
            return Reason(
                "What the transforms of {name} get is neither a tensor nor a grey or RGB image",
                "Convert images to RGB in the data set, or leave this off.",
            )
        elif hasattr(images[0], "getbands") and not any(
            name_of_step(step) in _MAKE_TENSORS for step in steps[first:]
        ):
            return Reason(
                "The transforms of {name} give no tensors", "Add a ToTensor to them, or leave this off."
            )
        elif (hindered := _last_hindered(steps[first:], images)) is not None:
            first += hindered + 1
        else:
            return first
    return Reason(
        f"{name_of_step(steps[-1])} is the last transform of {{name}}, and cannot be applied to a batch here",
        "Put some that can (flips, crops, rotation, blur, Normalize) behind it, or leave this off.",
    )


def _last_hindered(steps: Sequence[Any], images: list[Any]) -> int | None:
    """The number of the last transform that does something else to a batch than to one image after the other."""
    hindered = None
    for number, step in enumerate(steps):
        alone = [on_copy(step, image) for image in images]
        if not _does_the_same(step, images, alone):
            hindered = number
        images = alone
    return hindered


def _does_the_same(step: Any, images: list[Any], alone: list[Any]) -> bool:
    """Whether a batch comes out as its images do; of random transforms, whether it has their shape and type."""
    import torch

    from accel.techniques.data.batched_images import FORMS, InBatches, image_as_tensor

    batch, expected = (torch.stack([image_as_tensor(each) for each in given]) for given in (images, alone))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torchvision's, about plain tensors
            together = InBatches(None, [step], FORMS, 0).transformed(batch)
    except (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError):
        return False  # it stays with the samples
    if (together.shape, together.dtype) != (expected.shape, expected.dtype):
        return False
    difference, values = (together.double() - expected.double()).abs().mean(), expected.double()
    scale = (values.max() - values.min() + values.abs().max()) / 2 if expected.is_floating_point() else 255
    return name_of_step(step) in _RANDOM or bool(difference <= _NEAR * scale)


def _may_take_a_batch(step: Any) -> bool:
    """Whether a transform is one of torchvision's that take a batch, or have a form here that does."""
    from accel.techniques.data.batched_images import FORMS

    kind = type(step).__name__
    if not type(step).__module__.startswith("torchvision.transforms"):
        return False
    if kind not in ("RandomCrop", "RandomRotation"):
        return kind in FORMS or kind in _TAKE_A_BATCH
    mode = getattr(step, "interpolation", "nearest")
    odd = getattr(step, "expand", False) or getattr(step, "pad_if_needed", False)
    odd = odd or getattr(step, "center", None) is not None or step.fill not in (0, None)
    known = getattr(mode, "value", mode) in ("nearest", "bilinear")
    return not odd and known and getattr(step, "padding_mode", "constant") == "constant"


def _fixes_the_size(step: Any) -> bool:
    size = getattr(step, "size", None)
    whole = type(step).__name__ != "Resize" or (isinstance(size, (list, tuple)) and len(size) == 2)
    return type(step).__name__ in _FIX_THE_SIZE and whole
