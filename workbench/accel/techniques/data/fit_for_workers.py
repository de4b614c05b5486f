"""Whether worker processes can load what a DataLoader reads: what speaks against it, said before one of them fails."""

from __future__ import annotations

import io
import multiprocessing
import pickle
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from itertools import islice
from math import prod
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from accel.errors import Reason
from accel.units import size

if TYPE_CHECKING:
    import torch
    from torch.utils.data import DataLoader

    from accel.machine import Machine
    from accel.workload import Workload

_SHARED_MEMORY = Path("/dev/shm")
_LOOKED_AT = 8  # of a long list of samples
_WHICH_WORKER = "get_worker_info"
_STAGES = 32  # of a list of functions, as a pipeline has
_MOST_FOLLOWED = 2_000  # objects, functions, classes
_NOT_FOLLOWED = {"torch", "numpy", *sys.stdlib_module_names} - {"__main__"}
_PLAIN = (str, bytes, int, float, set, type(None), ModuleType)


def why_not_so_many(workload: Workload, machine: Machine, n: int, prefetch_factor: int) -> list[Reason]:
    """Too few cores for n worker processes, or too little memory to share for the batches that they keep ready."""
    reasons = []
    cores = machine.usable_cores
    if cores < 2 and n:
        reasons.append(
            Reason(
                "There is one usable core, and training needs it",
                "Leave this off, or give the kernel more cores.",
            )
        )
    elif n > 2 * cores:  # up to there it may pay off: some wait for a disk
        reasons.append(
            Reason(
                f"{n} worker processes on {cores} usable cores wait for each other",
                f"Choose n={cores} or less.",
            )
        )
    batch = _bytes_of_a_batch(workload)
    free = shutil.disk_usage(_SHARED_MEMORY).free if _SHARED_MEMORY.exists() else None
    if free is not None and n * prefetch_factor * batch > free:
        reasons.append(
            Reason(
                f"{n * prefetch_factor} batches of about {size(batch)} do not fit into /dev/shm, where {size(free)} "
                "are free and worker processes put them",
                "Choose smaller n or prefetch_factor, or start the container with "
                "more (docker run --shm-size=8g).",
            )
        )
    return reasons


def _bytes_of_a_batch(workload: Workload) -> int:
    """Of what the models were called with; 0 where that was not seen."""
    sizes = [0]
    for role in workload.roles:
        of_call: list[int] = []
        if role.inputs is not None:
            role.inputs.filled(lambda given: of_call.append(prod(given.shape) * given.dtype.itemsize))  # noqa: B023
        sizes.append(sum(of_call))
    return max(sizes)


def lies_on_gpu(dataset: Any) -> bool:
    """Whether tensors of a data set lie on a GPU, also those of a data set that it is a part of.

    >>> lies_on_gpu(Subset(TensorDataset(images.cuda()), range(100)))
    True
    """
    return any(tensor.is_cuda for tensor in tensors_of(dataset))


def tensors_of(dataset: Any) -> Iterator[torch.Tensor]:
    """The tensors that a data set holds, in its attributes and in those of the data sets inside."""
    import torch
    from torch.utils.data import Dataset

    waiting, seen = [dataset, *_held(dataset)], set[int]()
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, torch.Tensor):
            yield thing
        elif isinstance(thing, (list, tuple)):
            waiting += thing[:_LOOKED_AT]
        elif isinstance(thing, dict):
            waiting += islice(thing.values(), _LOOKED_AT)
        elif isinstance(thing, Dataset):
            waiting += _held(thing)


def _held(thing: Any) -> list[Any]:
    return list(getattr(thing, "__dict__", {}).values())


def asks_which_worker(dataset: Any) -> bool:
    """Whether a dataset splits its samples among workers: torch shards it, or its code calls `get_worker_info`.

    >>> asks_which_worker(sharded)
    True

    The search follows the dataset's parts, including pipeline stages, and the functions, classes and modules that the code
    names. It skips torch, numpy and the standard library.
    """
    from torch.utils.data import get_worker_info

    waiting, seen = [dataset], dict[int, object]()
    while waiting and len(seen) < _MOST_FOLLOWED:
        thing = waiting.pop(0)
        if thing is get_worker_info or hasattr(type(thing), "apply_sharding"):
            return True
        if id(thing) in seen or isinstance(thing, _PLAIN) or _is_elsewhere(thing):
            continue
        seen[id(thing)] = thing
        if isinstance(thing, FunctionType) and _WHICH_WORKER in _names_in(thing.__code__):
            return True  # as an attribute of a module, too
        waiting += _led_to(thing)
    return False


def _led_to(thing: Any) -> Iterator[object]:
    if isinstance(thing, FunctionType):
        names = _names_in(thing.__code__)
        for named in (thing.__globals__.get(name) for name in names):
            yield from (
                (vars(named).get(name) for name in names) if isinstance(named, ModuleType) else (named,)
            )
        yield from (cell.cell_contents for cell in thing.__closure__ or () if cell != CellType())
    elif isinstance(thing, type):
        for value in vars(thing).values():
            # Of a static method, of a property.
            yield getattr(value, "__func__", getattr(value, "fget", value))
        yield from thing.__bases__
    elif isinstance(thing, (list, tuple, dict)):
        yield from islice(thing.values() if isinstance(thing, dict) else thing, _STAGES)
    elif isinstance(thing, partial):
        yield from (thing.func, *thing.args, *thing.keywords.values())
    elif isinstance(thing, MethodType):
        yield from (thing.__func__, thing.__self__)
    else:
        yield type(thing)
        yield from _held(thing)


def _is_elsewhere(thing: Any) -> bool:
    module = getattr(thing, "__module__", None) if isinstance(thing, (type, FunctionType)) else None
    return isinstance(module, str) and module.partition(".")[0] in _NOT_FOLLOWED


def _names_in(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return {*code.co_names, *(name for each in inner for name in _names_in(each))}


def why_not_sent(name: str, loader: DataLoader[Any]) -> list[Reason]:
    """Only where workers are not forked: a fresh interpreter must be able to import what it is sent."""
    if _start_method(loader) == "fork":
        return []
    sent = {
        "data set": loader.dataset,
        "collate_fn": loader.collate_fn,
        "worker_init_fn": loader.worker_init_fn,
    }
    for what, thing in sent.items():
        if unknown := _cannot_be_imported(thing):
            because = f"The {what} of {name} needs {unknown}, and worker processes are not forked here: they could not import it"
            return [Reason(because, "Move it into a file of its own and import it.")]
    return []


def _start_method(loader: DataLoader[Any]) -> str:
    """Asked so that nothing is settled by it: `set_start_method` may be called once, and that is the user's."""
    if loader.multiprocessing_context is not None:
        return str(loader.multiprocessing_context.get_start_method())
    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]


def _cannot_be_imported(thing: Any) -> str:
    """The first class or function in it that no other process can import, or what pickle says against it."""
    looker = _ImportLooker(io.BytesIO())
    try:
        looker.dump(thing)
    except _Found as found:
        return str(found)
    except Exception as error:  # whatever the user's own __reduce__ raises
        return f"something that cannot be sent ({type(error).__name__}: {error})"
    return ""


class _Found(Exception):
    """The name of what cannot be imported."""


class _ImportLooker(pickle.Pickler):
    """Pickles everything but the numbers."""

    def reducer_override(self, thing: Any) -> Any:
        import torch

        if isinstance(thing, (type, FunctionType)):
            if thing.__module__ == "__main__" or "<" in thing.__qualname__:
                raise _Found(f"{thing.__qualname__}, which is defined in the notebook or inside a function")
        elif isinstance(thing, torch.Tensor) or type(thing).__name__ == "ndarray":
            return int, ()
        return NotImplemented
