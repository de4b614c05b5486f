"""Whether two loaders show a model the same: order, batches, and samples under the same random numbers."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader

LOOKED_AT = 4  # samples, spread over the data set
SEEDS = (1, 2, 3)
EQUAL = 1e-3


class Unlike(NamedTuple):
    """What is different, and what to do about it."""

    saw: str
    hint: str


def unlike_order(given: DataLoader[Any], other: DataLoader[Any]) -> Unlike | None:
    """What is different in how two loaders put samples into batches; None where nothing is."""
    wanted, got = _batches(given), _batches(other)
    if [len(batch) for batch in wanted] != [len(batch) for batch in got]:
        largest = max(map(len, got), default=0)
        saw = f"An epoch has {len(got)} batches of up to {largest} samples; it had {len(wanted)} of {len(wanted[0])}."
        return Unlike(saw, "Keep data set, batch size and drop_last as they are.")
    if len({index for batch in got for index in batch}) < sum(map(len, got)):
        return Unlike(
            "Some samples come twice in an epoch.", "Each sample comes once: leave the sampler as it is."
        )
    if wanted != _batches(given) and got == _batches(other):
        return Unlike(
            "The samples come in the same order in each epoch.", "The given loader shuffles: shuffle=True."
        )
    return None


def _batches(loader: DataLoader[Any]) -> list[list[int]]:
    """The indices of an epoch, batch by batch; without a batch sampler each sample is a batch of its own."""
    if loader.batch_sampler is None:
        return [[int(index)] for index in loader.sampler]
    return [[int(index) for index in batch] for batch in loader.batch_sampler]


def unlike_batch(given: DataLoader[Any], other: DataLoader[Any]) -> Unlike | None:
    """What is different in the batch that two loaders make of the same samples; None where nothing is."""
    samples = [_drawn(given.dataset, index, SEEDS[0]) for index in range(min(2, len(given.dataset)))]  # type: ignore[arg-type]
    if _equal(given.collate_fn(samples), other.collate_fn(samples)):
        return None
    return Unlike("The same samples make another batch.", "Leave the collate function as it is.")


def compared(given: Any, other: Any) -> Unlike | None:
    """What is different in the samples of two data sets under the same random numbers; None where nothing is.

    >>> compared(photos, photos)
    """
    if given is other:
        return None
    if len(given) != len(other):
        return Unlike(
            f"The data set has {len(other)} samples; it had {len(given)}.", "Keep all samples as they are."
        )
    for index in range(0, len(given), max(1, len(given) // LOOKED_AT)):
        wanted, got = ([_drawn(each, index, seed) for seed in SEEDS] for each in (given, other))
        if all(_equal(one, two) for one, two in zip(wanted, got, strict=True)):
            continue
        if not _equal(wanted[0], wanted[1]) and _equal(got[0], got[1]):
            return Unlike(
                f"Sample {index} comes out alike each time: its random transforms are frozen.",
                "Keep only what comes before the first random transform, and apply the rest anew each time.",
            )
        return Unlike(
            f"Sample {index} comes out as another one under the same random numbers.",
            "The model has to see what it saw before: leave every transform in, with its settings.",
        )
    return None


def _drawn(dataset: Any, index: int, seed: int) -> Any:
    """A sample under given random numbers; those of the notebook go on as if nothing had been drawn."""
    states = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed)
            return dataset[index]
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


def _equal(one: Any, two: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
        return one.shape == two.shape and torch.allclose(one.float(), two.float(), atol=EQUAL)
    if isinstance(one, (tuple, list)) and isinstance(two, (tuple, list)):
        return len(one) == len(two) and all(_equal(a, b) for a, b in zip(one, two, strict=True))
    if any(isinstance(each, (torch.Tensor, np.ndarray)) for each in (one, two)):
        return _equal(torch.as_tensor(one), torch.as_tensor(two))
    return bool(one == two)
