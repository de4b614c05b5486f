"""Take batches from a DataLoader's iterator before they are asked for, and copy them to the device meanwhile.

The class below is also what `%accel export` writes into a cell: it uses torch and the standard library only.
"""

from __future__ import annotations

import random
import sys
import weakref
from collections import deque
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map


class BatchesAhead:
    """Stands for `iterator._next_data`: copies the next batches to the device on a stream of its own."""

    def __init__(self, iterator: Any, batches: int, device: torch.device | None) -> None:
        self.iterator = weakref.ref(iterator)  # its worker processes end as soon as nobody reads it
        self.inner = vars(iterator).get("_next_data")
        self.batches, self.device = batches, device
        self.stream: Any = None if device is None else torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.waiting: deque[tuple[Any, Any, Any]] = (
            deque()
        )  # (batch, its copy is done, what was raised instead)
        # Without worker processes the batches are made here: if that draws random numbers, it has to stay where it was
        # between those that the training step draws.
        self.may_look_ahead = iterator._num_workers > 0
        self.taken = self.given_ahead = self.tensors_copied = 0

    def __call__(self) -> Any:
        if self.waiting:
            self.given_ahead += 1
        else:
            self.take()
        batch, copied, error = self.waiting.popleft()
        if error is not None:
            try:
                raise error
            finally:
                del (
                    error
                )  # its traceback holds this frame: a circle, and with it the iterator and its workers
        while self.may_look_ahead and len(self.waiting) < self.batches:
            self.take()
            if self.waiting[-1][2] is not None:  # the end, or an error: raised when its turn comes
                break
        return self.handed_over(batch, copied)

    def take(self) -> None:
        """Fetch the next batch and start its copy."""
        before = random_number_state() if self.taken == 1 and not self.may_look_ahead else None
        try:
            batch = self.fetched()
        except StopIteration:
            self.waiting.append(
                (None, None, StopIteration())
            )  # a new one: the traceback would hold the iterator
            return
        except Exception as error:
            self.waiting.append((None, None, error))
            return
        self.taken += 1
        if before is not None:  # the second batch: the sampler draws its seed with the first
            self.may_look_ahead = random_number_state() == before
        self.waiting.append((*self.copied(batch), None))

    def fetched(self) -> Any:
        """What the iterator gives without us."""
        iterator: Any = self.iterator()
        return type(iterator)._next_data(iterator) if self.inner is None else self.inner()

    def copied(self, batch: Any) -> tuple[Any, Any]:
        """The batch on the device, and the event that marks the end of the copy."""
        if self.stream is None:
            return batch, None
        with torch.cuda.stream(self.stream):
            return tree_map(self.moved, batch), self.stream.record_event()

    def moved(self, part: Any) -> Any:
        """A tensor on the device; what is no tensor stays where it is."""
        if not torch.is_tensor(part) or part.device == self.device:
            return part
        self.tensors_copied += 1
        return part.to(self.device, non_blocking=True)

    def handed_over(self, batch: Any, copied: Any) -> Any:
        """Let the step's stream wait for the copy, and tell the allocator that it uses the memory."""
        if copied is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_event(copied)
            for part in tree_flatten(batch)[0]:
                if torch.is_tensor(part):
                    part.record_stream(current)
        return batch

    def start_again(self) -> None:
        """Another epoch of the same iterator: what was taken of the last one is not part of it."""
        self.waiting.clear()


def random_number_state() -> list[Any]:
    """The states of the random number generators of torch, Python and numpy."""
    state = [torch.get_rng_state().tolist(), random.getstate()]
    if "numpy" in sys.modules:
        kind, keys, *rest = sys.modules["numpy"].random.get_state()
        state += [kind, keys.tolist(), rest]
    return state


def look_ahead(iterator: Any, batches: int, device: torch.device | None) -> BatchesAhead:
    """Let an iterator of a DataLoader take this many batches ahead; device None: leave them where they are."""
    ahead = iterator._next_data = BatchesAhead(iterator, batches, device)
    if iterator._persistent_workers:  # the same iterator again in the next epoch
        inner = vars(iterator).get("_reset")

        def reset(loader: Any, first_iter: bool = False) -> None:
            ahead.start_again()
            owner: Any = ahead.iterator()
            if inner is None:
                type(owner)._reset(owner, loader, first_iter)
            else:
                inner(loader, first_iter)

        iterator._reset = reset
    return ahead
