"""How many indices a DataLoader's iterator drew for each batch: which axis of a batch is that of samples shows by it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary


class _Draws:
    """What one iterator drew in one pass over its sampler, by the number of the batch; drawn ahead of use by workers."""

    def __init__(self, iterator: Any) -> None:
        self.sampler_iter = iterator._sampler_iter
        self.number = getattr(
            iterator, "_send_idx", iterator._num_yielded
        )  # others were drawn before we looked
        self.counts: dict[int, int] = {}


_draws: WeakKeyDictionary[Any, _Draws] = WeakKeyDictionary()


def noting_indices(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What takes the place of `_BaseDataLoaderIter._next_index` while batches are watched."""

    @functools.wraps(original)
    def next_index(iterator: Any) -> Any:
        drawn = original(iterator)
        known = _draws.get(iterator)
        if (
            known is None or known.sampler_iter is not iterator._sampler_iter
        ):  # another epoch of the same iterator
            known = _draws[iterator] = _Draws(iterator)
        if isinstance(drawn, (list, tuple)):
            known.counts[known.number] = len(drawn)
        known.number += 1
        return drawn

    return next_index


def indices_drawn(iterator: Any) -> int | None:
    """How many indices were drawn for the batch that this iterator gave last; None where that was not seen.

    >>> batch = next(iterator); indices_drawn(iterator)
    16
    """
    known = _draws.get(iterator)
    if (
        known is None
        or known.sampler_iter is not iterator._sampler_iter
        or not getattr(iterator, "_in_order", True)
    ):
        return None
    return known.counts.pop(iterator._num_yielded - 1, None)
