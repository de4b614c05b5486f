"""What loops fetched while a cell ran: which loop, when, how many samples, and when each was over."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from operator import index
from time import perf_counter_ns
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from accel.workload.namespace_reads import is_a

NOTHING = 0, 0  # samples, and id of a loader
MOST_SHAPES = 10_000  # accel remembers the number of samples for at most this many batch shapes
_MOST_TENSORS = 4  # in a batch whose number of samples is remembered
_DEEPEST = 3  # of the parts of a batch that are compared; one that holds itself would never end


class Fetch(NamedTuple):
    """A loop got an item. `key` is the line of a `for` statement or the id of a loader, `run` one run of that loop."""

    time_ns: int
    key: int
    run: int
    samples: int  # of the batch that it got; 0 where the item is none
    loader: int = 0  # id of the DataLoader that gave it; 0 where none did


class LoopRecord:
    """The fetches of one run of a cell, in order.

    >>> run = loops.begins(key=3)
    >>> loops.fetches.append(Fetch(time_ns, 3, run, samples=64))
    >>> loops.ends(run)
    """

    def __init__(self) -> None:
        self.fetches: list[Fetch] = []
        self.made_ns: list[int] = []  # by run: when its iterator was made
        self.ended_ns: dict[int, int] = {}  # by run; a loop that was left at the end of the cell has none
        self.left_late: set[int] = set()  # runs that were over before `ended_ns`, who knows when
        self.loaders: set[int] = set()  # keys that are loaders', fetched from outside the cell's own `for`
        self.drawn = NOTHING  # the largest batch that a loader gave since this was set to NOTHING
        self._iterators: dict[int, tuple[int, weakref.ref[Any]]] = {}
        self._samples: dict[tuple[Any, ...], int] = {}  # by the shapes of a batch's tensors

    def begins(self, key: int, iterator: Any = None) -> int:
        """A loop begins. Where a loader's iterator is given, its run is over when that is gone, if not before."""
        run = len(self.made_ns)
        self.made_ns.append(perf_counter_ns())
        if iterator is not None:
            self.loaders.add(key)
            with suppress(TypeError):  # a list's iterator takes none; nobody sees its fetches
                self._iterators[id(iterator)] = run, weakref.ref(iterator, self._gone(run))
        return run

    def ends(self, run: int, time_ns: int | None = None) -> None:
        """The loop is over; what is said first counts."""
        self.ended_ns.setdefault(run, perf_counter_ns() if time_ns is None else time_ns)

    def run_of(self, iterator: Any, key: int) -> int:
        """The run that fetches by this iterator of a loader; it may have been made before the cell began."""
        run, known = self._iterators.get(id(iterator), (-1, None))
        return run if known is not None and known() is iterator else self.begins(key, iterator)

    def samples_in(self, batch: Any) -> int:
        """Like the function `samples_in`, but remembers its result by shapes if the batch is a tuple or list of a few tensors."""
        with suppress(Exception):  # a nested tensor, or a mode of the user's that changes what tensors answer
            if (type(batch) is tuple or type(batch) is list) and len(batch) <= _MOST_TENSORS:
                tensor = sys.modules["torch"].Tensor
                shapes = tuple([each.shape for each in batch if type(each) is tensor])
                if len(shapes) == len(batch):
                    if shapes not in self._samples and len(self._samples) < MOST_SHAPES:
                        self._samples[shapes] = samples_in(batch)
                    if shapes in self._samples:
                        return self._samples[shapes]
        return samples_in(batch)

    def forget(self, keys: set[int]) -> None:
        """Drop loops that turned out to be none over data."""
        self.fetches[:] = [fetch for fetch in self.fetches if fetch.key not in keys]

    def _gone(self, run: int) -> Callable[[Any], None]:
        def gone(reference: Any) -> None:
            if run not in self.ended_ns:
                self.left_late.add(run)
                self.ends(run)

        return gone


def samples_drawn(iterator: Any, batch: Any) -> int:
    """Samples of a batch that this iterator of a DataLoader gave; a sampler of the user may have no size, or any."""
    size = indices_drawn(iterator)
    try:
        size = size or iterator._index_sampler.batch_size
    except Exception:  # the user's own class raises what it likes
        size = None
    return samples_in(batch, size if isinstance(size, int) else None)


def samples_in(batch: Any, expected: int | None = None) -> int:
    """Samples of a batch: an axis of its first tensor, or the length of a list as long as it should be.

    >>> samples_in([torch.ones(8, 3), torch.ones(8)], 8), samples_in((["a", "b", "c"], [1, 2, 3]), 3)
    (8, 3)

    `expected` is how many were drawn. The axis is the first one, unless the second is as long as the batch's labels or lengths
    are, or as what was drawn: recurrent networks have time first.

    0 where nothing tells: a loop may give any object, and nothing that it raises reaches the training. A list as long as the
    batch is one of samples: images of different sizes are not stacked. A number before the batch is that of `enumerate`.
    """
    try:
        return _samples_in(batch, expected)
    except Exception:  # the user's own class: an attribute dict raises KeyError for `shape`
        return expected or 0


def _samples_in(batch: Any, expected: int | None) -> int:
    part = batch
    for _ in range(8):  # no batch is nested deeper; one that holds itself would never end
        if isinstance(part, Mapping) and part:
            part = next(iter(part.values()))
        elif shape := _shape(part):
            return shape[0] if shape[0] == expected else _on_axis(shape, [*_shapes(batch)], expected)
        elif isinstance(part, (list, tuple)) and part and (len(part) != expected or _are_collated(part)):
            part = part[1] if len(part) == 2 and isinstance(part[0], int) else part[0]
        else:
            break
    return expected or 0


def _on_axis(first: tuple[int, ...], shapes: list[tuple[int, ...]], expected: int | None) -> int:
    """Of the shapes of a batch's tensors, the length of the axis that samples lie along."""
    rows = {shape[0] for shape in shapes if len(shape) == 1}  # labels, lengths: one number a sample
    if len(rows) == 1 and rows <= {*first[:2]}:
        return rows.pop()
    if expected in first[1:2] or any(expected == shape[0] for shape in shapes):
        return expected or 0  # nodes of several graphs, rows of several texts: as many as were drawn
    return first[0]


def _shapes(part: Any, depth: int = 0) -> Iterator[tuple[int, ...]]:
    """Shapes of the tensors in a batch, of a few of each list."""
    if shape := _shape(part):
        yield shape
    elif depth < _DEEPEST and isinstance(part, (Mapping, list, tuple)):
        for each in islice(part.values() if isinstance(part, Mapping) else part, 8):
            yield from _shapes(each, depth + 1)


def _are_collated(parts: Any) -> bool:
    """Whether these are tensors of as many samples each: inputs and labels, not a list of images."""
    shapes = [shape for part in parts if (shape := _shape(part))]
    firsts = {shape[0] for shape in shapes}
    return len(shapes) == len(parts) and len(firsts) == 1 and (len({*shapes}) > 1 or firsts == {len(parts)})


def _shape(part: Any) -> tuple[int, ...]:
    """Its shape, or that much of it; empty where it has none, though anything may be called so."""
    try:
        shape = tuple(map(index, islice(part.shape, 8)))
        return shape if shape and shape[0] >= 0 else ()
    except Exception:  # the user's own class
        return ()


class LoopLine:
    """What is known of one `for` statement over all its runs; `events` is -1 while no run of it is on."""

    __slots__ = ("events", "iterations", "quiet")

    def __init__(self) -> None:
        self.iterations, self.events, self.quiet = 0, -1, True

    def listen(self, events: int) -> None:
        """Not quiet any more when something of a training step began since we last looked."""
        if self.events not in (-1, events):
            self.quiet = False


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
        if is_a(drawn, (list, tuple)):
            with suppress(Exception):  # a user's list class may raise
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
