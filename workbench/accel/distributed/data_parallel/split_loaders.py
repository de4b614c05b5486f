"""Loaders that are shared out already: each rank's gives that rank's part, by a sampler or a data set that knows the ranks."""

from __future__ import annotations

import hashlib
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from accel.distributed.data_parallel.gradient_readers import with_nested
from accel.errors import AccelError
from accel.workload.exchanged_values import from_all_ranks
from accel.workload.generators import generator_states, restore_generators, seeded_states

_PAIRS = (("num_replicas", "rank"), ("num_processes", "process_index"), ("world_size", "rank"))
_ASKS = {"get_rank", "get_world_size", "RANK", "WORLD_SIZE", "LOCAL_RANK"}
_TALKS = {"torch.distributed", "distributed"}
_RANDOM = ""  # in the place of a digest


@dataclass(frozen=True)
class Split:
    """By what a loader is shared out, among how many, and whose part it gives; None where only its code tells."""

    by: str
    parts: int | None = None
    part: int | None = None

    def check(self, loader: str, *, rank: int, world_size: int) -> None:
        """Raises AccelError where that is not this rank's part."""
        if self.parts in (None, world_size) and self.part in (None, rank):
            return
        raise AccelError(
            f"Training on {loader} on {world_size} ranks",
            because=f"its {self.by} gives part {self.part} of {self.parts}, and this is rank {rank} of {world_size}",
            do="Make it in the cell, without numbers: in a rank it finds its own.",
        )


def split_of(loader: Any) -> Split | None:
    """How a DataLoader is shared out by what the user, or a library, built it of; None where every rank gets all of it.

    >>> split_of(DataLoader(data, sampler=DistributedSampler(data, num_replicas=2, rank=1)))
    Split(by='DistributedSampler', parts=2, part=1)
    """
    for each in _built_of(loader):
        for parts, part in _PAIRS:
            numbers = (getattr(each, parts, None), getattr(each, part, None))
            if all(isinstance(number, int) for number in numbers):
                return Split(type(each).__name__, *numbers)
        if _names(_own_codes(each)) & _ASKS:
            return Split(type(each).__name__)
    return None


def names_ranks(codes: Sequence[types.CodeType]) -> bool:
    """Whether a cell knows of ranks: some of its code asks for its number, or the first, its own, uses torch.distributed.

    >>> names_ranks([compile("x = x[torch.distributed.get_rank() :: 2]", "", "exec")])
    True
    """
    return bool(_names(codes) & _ASKS or _names(codes[:1]) & _TALKS)


def check_alike(loader: Any, name: str) -> None:
    """Raises AccelError where ranks hold other data than each other; every rank calls this at the same place."""
    from torch.utils.data import IterableDataset

    if isinstance(loader.dataset, IterableDataset) or not hasattr(loader.dataset, "__getitem__"):
        return
    of_ranks = from_all_ranks(_digests(loader.dataset))
    if any(len(set(each) - {_RANDOM}) > 1 for each in zip(*of_ranks, strict=False)):
        raise AccelError(
            f"Sharing {name} out among {len(of_ranks)} ranks",
            because="its data differ from rank to rank: the cell has shared them out already",
            do="Give every rank all of the data, or begin the cell with torch.distributed.init_process_group(): then it trains "
            "as under torchrun, and nothing is shared out or averaged but by itself.",
        )


def _built_of(loader: Any) -> Iterator[Any]:
    batches = getattr(loader, "batch_sampler", None)
    yield from (loader.sampler, batches, getattr(batches, "sampler", None), loader.dataset)
    yield getattr(loader.dataset, "_distributed", None)  # of Hugging Face's streamed data sets


def _own_codes(thing: Any) -> Iterator[types.CodeType]:
    """Of a class that the notebook made."""
    if type(thing).__module__ != "__main__":
        return
    for value in vars(type(thing)).values():
        if isinstance(value, types.FunctionType):
            yield value.__code__


def _names(codes: Iterable[types.CodeType]) -> set[str]:
    """Names and texts in code."""
    found: set[str] = set()
    for code in with_nested(codes):
        found.update(code.co_names, (each for each in code.co_consts if isinstance(each, str)))
    return found


def _digests(dataset: Any) -> list[str]:
    """Of how many samples there are, and of each part of three of them, read under the same random numbers on every rank.

    A part that a second reading finds changed, as by numbers of a generator of its own, tells nothing; nor do data that are not
    read by these numbers (a sampler may give other keys).
    """
    states = generator_states()
    try:
        count = len(dataset) if hasattr(dataset, "__len__") else 0
        places = sorted({0, count // 2, count - 1}) if count else ()
        first, second = (_read(dataset, places) for _ in range(2))
    except Exception:
        return []  # it may be read by other keys than numbers, and what is wrong with it, its own loop raises
    finally:
        restore_generators(states)
    parts = zip(first, second, strict=False) if len(first) == len(second) else ()
    return [str(count), *(one if one == other else _RANDOM for one, other in parts)]


def _read(dataset: Any, places: Iterable[int]) -> list[str]:
    restore_generators(seeded_states())
    return [hashlib.sha256(part).hexdigest() for place in places for part in _parts(dataset[place])]


def _parts(value: Any) -> Iterator[bytes]:
    import torch

    if isinstance(value, torch.Tensor):
        yield (
            repr(tuple(value.shape)).encode()
            + value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        )
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _parts(part)
    elif isinstance(value, dict):
        for name, part in value.items():
            yield repr(name).encode()
            yield from _parts(part)
    elif isinstance(value, (str, bytes, int, float)):
        yield repr(value).encode()
    elif hasattr(value, "tobytes"):  # arrays and images
        yield value.tobytes()
