"""What of a data set's samples can be kept: all that comes before the first random transform; or in words why nothing can."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from accel.errors import Reason
from accel.techniques.data.dataset_transforms import steps_of, with_transform
from accel.techniques.data.remembered_probes import notes_on, of_transforms, remembered
from accel.techniques.data.sample_probe import (
    first_random_step,
    is_random,
    name_of_step,
    nothing_drawn,
    position_of_image,
    spread,
    untransformed,
)

_PROBED = 8  # samples whose shapes are compared
_REPEATED = 2  # samples that are read again and again, to see whether that is random


class SamplesToKeep(NamedTuple):
    """A data set as it is before its first random transform, and what has to be done to each sample anew."""

    source: Any
    kept: int  # transforms that are done before
    rest: list[Any]
    position: int  # of the image in a sample


class _Probe(NamedTuple):
    kept: int
    position: int | None
    is_random: bool
    formats: int  # how many different ones the samples have
    odd: str
    size_bytes: int


def samples_to_keep(dataset: Any) -> SamplesToKeep:
    """What a cache of this data set reads once, and the transforms behind it.

    >>> samples_to_keep(dataset).rest
    [RandomHorizontalFlip(p=0.5), ToTensor()]

    With no random transform the source is the data set itself.
    """
    probe = _probe(dataset)
    return SamplesToKeep(
        _source(dataset, probe.kept), probe.kept, steps_of(dataset)[probe.kept :], probe.position or 0
    )


def size_of_all(dataset: Any) -> int:
    """Bytes of all samples that are kept, by those that were probed."""
    return len(dataset) * _probe(dataset).size_bytes


def why_not_kept(name: str, dataset: Any, *, all_of_it: bool) -> list[Reason]:
    """Why the samples of a loader's data set cannot be kept; `all_of_it`: with nothing left to be done to them."""
    probe = _probe(dataset)
    rest = steps_of(dataset)[probe.kept :]
    if rest and all_of_it:
        return [
            Reason(
                f"{name_of_step(rest[0])} of {name} is random: keeping what it gives would freeze it",
                'Use what="samples", which keeps what comes before it.',
            )
        ]
    if probe.position is None:
        return [
            Reason(
                f"The data set of {name} changes images after its transforms, some of which are random",
                "Move what it does into the transforms, or leave this off.",
            )
        ]
    if probe.is_random:
        return [
            Reason(
                f"The data set of {name} is random where it reads a sample (in __getitem__)",
                "Make that a transform, or leave this off.",
            )
        ]
    if probe.odd:
        return [
            Reason(
                f"The samples of {name} hold {probe.odd}, which cannot be kept in shared memory",
                "Leave that out of the sample, or leave this off.",
            )
        ]
    if probe.formats > 1:
        before = (
            f"before {name_of_step(rest[0])}, the first random transform" if rest else "after all transforms"
        )
        return [
            Reason(
                f"The samples of {name} differ in shape or kind {before}: {probe.formats} kinds among {_PROBED}",
                "Bring them to one size there (Resize((height, width)), convert), or leave this off.",
            )
        ]
    return []


def is_cache(dataset: Any) -> bool:
    """Whether a data set is one of ours, that remembers."""
    from accel.techniques.data.cached_samples import CachedSamples, SamplesOnDevice

    return isinstance(dataset, (CachedSamples, SamplesOnDevice))


def living_cache(loader: Any, what: str, make: Callable[[], Any]) -> Any:
    """The cache that a suspended plan had made for this loader, if somebody still holds it; else a new one."""
    dataset, key = loader.dataset, (what, of_transforms(loader.dataset))
    notes = notes_on(loader)
    known_dataset, known = notes.get(key, (None, None))
    if known is not None and known_dataset() is dataset and (cache := known()) is not None:
        return cache
    cache = make()
    with suppress(TypeError):  # a list is read again
        notes[key] = weakref.ref(dataset), weakref.ref(cache)
    return cache


def _source(dataset: Any, kept: int) -> Any:
    steps = steps_of(dataset)
    if kept == len(steps):
        return dataset
    from torchvision.transforms import Compose

    return with_transform(dataset, Compose(steps[:kept]))


def _probe(dataset: Any) -> _Probe:
    return remembered(dataset, "samples to keep", partial(_read, dataset))


def _read(dataset: Any) -> _Probe:
    from torch.utils._pytree import tree_flatten

    from accel.techniques.data.cached_samples import as_array, format_of

    steps = steps_of(dataset)
    repeated = spread(len(dataset), _REPEATED)
    with nothing_drawn(dataset):
        kept = first_random_step(steps, [untransformed(dataset, i) for i in repeated]) if steps else 0
        position = position_of_image(dataset) if kept < len(steps) else 0
        if position is None:
            return _Probe(kept, None, False, 0, "", 0)
        source = _source(dataset, kept)
        if any(is_random(lambda index=index: source[index], source) for index in repeated):  # type: ignore[misc]
            return _Probe(kept, position, True, 0, "", 0)
        samples = [tree_flatten(source[index]) for index in spread(len(dataset), _PROBED)]
    odd = next((kind for parts, _ in samples for kind in _cannot_be_kept(parts)), "")
    if odd:
        return _Probe(kept, position, False, 0, odd, 0)
    formats = {(str(structure), tuple(map(format_of, parts))) for parts, structure in samples}
    size_bytes = max(sum(as_array(part).nbytes for part in parts) for parts, _ in samples)
    return _Probe(kept, position, False, len(formats), "", size_bytes)


def _cannot_be_kept(parts: list[Any]) -> list[str]:
    """The kinds of things in a sample that cannot be read back from bytes exactly as they were."""
    return [f"a {type(part).__name__}" for part in parts if not _can_be_kept(part)] or (
        [] if parts else ["nothing"]
    )


def _can_be_kept(part: Any) -> bool:
    import numpy
    import torch

    if isinstance(part, torch.Tensor):
        plain = type(part).__name__ in (
            "Tensor",
            "Image",
            "Mask",
        )  # tv_tensors of boxes have attributes beside
        dense = part.layout is torch.strided and part.device.type == "cpu" and not part.requires_grad
        has_numpy = part.dtype is not torch.bfloat16 and "float8" not in str(part.dtype)
        return plain and dense and has_numpy
    if isinstance(part, (numpy.ndarray, numpy.generic)):
        return part.dtype.kind in "biufc"
    if isinstance(part, (bool, int, float)):
        return numpy.asarray(part).dtype.kind in "bif"
    return hasattr(part, "getbands") and part.mode in ("L", "RGB", "RGBA", "I", "F")
