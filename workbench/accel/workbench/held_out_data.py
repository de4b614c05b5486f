"""Which loader holds data that the training does not see: the one named, or one that is found by its name."""

from __future__ import annotations

import itertools
import math
import re
from types import FunctionType, ModuleType
from typing import Any

from accel.errors import AccelError, UnknownName
from accel.workload.roles import names_by_id
from accel.workload.workload import Workload, look_up

_WORDS = (  # the first that a name holds wins: tests are kept for the very end
    ("val", "valid", "validation"),
    ("dev", "development"),
    ("held", "heldout", "holdout"),
    ("eval", "evaluation"),
    ("test", "testing"),
)
_ENDINGS = re.compile(r"(data)?(loader|set|batches|iter|data|dl|ds)$")  # "testloader" is a test
_DEEP, _MANY = 2, 100  # how far into objects, and how many of a list, data is looked for
_DO = (
    'Name one, as in --held-out val_loader; or give --metric a function that needs none: "def metric(model)".'
)


def find_held_out(
    workload: Workload, training: str | None, wanted: Any = None, *, was_profiled: bool = True
) -> str:
    """The name of the held-out loader; `training` names the one that steps take batches from.

    >>> find_held_out(workload, "loader")
    'val_loader'

    Raises AccelError where there is none, or several and no name tells them apart. What a cell that was not profiled
    trains on nobody saw: no loader is taken that shares data with anything that it reads, and where its loader cannot be told
    only one whose name says that it is held out.
    """
    if wanted is not None:
        return _named(workload.namespace, wanted)
    loaders = _loaders(workload.namespace)
    trains = training_loader(workload, training)
    others = {name: loader for name, loader in loaders.items() if not shares_samples(loader, trains)}
    if not was_profiled:
        data = _data_read(workload)
        others = {
            name: loader for name, loader in others.items()
            if not any(shares_samples(loader, each) for each in data if each is not loader)
        }  # fmt: skip
    untrained = [name for name in others if "train" not in name.rpartition(".")[2].lower()]
    if (named := _named_held_out(untrained)) is not None:
        return named
    if trains is None and not was_profiled:
        raise _none_found(
            "which data this cell trains on is unknown without a profile, and no loader that its name says is "
            "held out is free of what the cell reads"
        )
    unseen = [name for name in untrained if "train" not in name.lower()]
    if trains is None:  # then a loader that the cell reads may be the training's own
        read = {role.name for role in workload.roles if role.kind == "loaders"}
        unseen = [name for name in unseen if name not in read]
    if len(unseen) == 1:
        return unseen[0]
    if unseen:
        raise _none_found(f"several loaders could be meant: {', '.join(sorted(unseen))}")
    known = f" (there is {', '.join(sorted(loaders))})" if loaders else ""
    raise _none_found(
        f"no DataLoader of the notebook holds data that the training does not see{known}",
        "Make a DataLoader for it, named for example val_loader. ",
    )


def _named_held_out(names: list[str]) -> str | None:
    """The first whose name says that it is held out, by the order of `_WORDS`."""
    return next((name for words in _WORDS for name in names if not _words_of(name).isdisjoint(words)), None)


def _none_found(because: str, first: str = "") -> AccelError:
    return AccelError("Quality on held-out data", because=because, do=first + _DO)


def shares_samples(one: Any, other: Any) -> bool:
    """Whether two loaders give some of the same samples, as far as data sets, subsets and samplers tell.

    >>> shares_samples(DataLoader(data), DataLoader(Subset(data, [0, 1])))
    True
    """
    if one is None or other is None:
        return False
    if one is other:
        return True
    (data, chosen), (others_data, others) = _samples_of(one), _samples_of(other)
    return data is others_data and (chosen is None or others is None or not chosen.isdisjoint(others))


def _samples_of(loader: Any) -> tuple[Any, set[int] | None]:
    """The data set at the bottom, and which of its samples (None: all)."""
    from torch.utils.data import Dataset, Subset, TensorDataset

    data, chosen = (
        loader if isinstance(loader, Dataset) else getattr(loader, "dataset", loader),
        getattr(getattr(loader, "sampler", None), "indices", None),
    )
    chosen = None if chosen is None else {int(index) for index in chosen}
    while isinstance(data, Subset):
        indices = data.indices
        chosen = {int(indices[i]) for i in (range(len(indices)) if chosen is None else chosen)}
        data = data.dataset
    return data.tensors[0] if isinstance(data, TensorDataset) else data, chosen


def _data_read(workload: Workload) -> list[Any]:
    """The loaders, data sets and tensors that a cell reads, also those that an object such as a trainer holds."""
    from torch import Tensor, nn
    from torch.utils.data import DataLoader, Dataset

    found: list[Any] = []
    waiting = [(workload.namespace[name], 0) for name in workload.reads if name in workload.namespace]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, (DataLoader, Dataset, Tensor)):
            found.append(value)
        elif depth < _DEEP and not isinstance(value, (type, ModuleType, FunctionType, nn.Module)):
            inside = (
                value.values()
                if isinstance(value, dict)
                else value
                if isinstance(value, (list, tuple))
                else ()
            )
            held = getattr(value, "__dict__", {}).values()
            waiting += [(each, depth + 1) for each in (*itertools.islice(inside, _MANY), *held)]
    return found


def _words_of(name: str) -> set[str]:
    """`testloader`, `test_dl` and `TestData` are a test; `latest_loader` and `device_loader` are neither."""
    last = re.sub(r"([a-z])([A-Z])", r"\1_\2", name.rpartition(".")[2]).lower()
    words = re.findall("[a-z]+", last)
    return {*words, *(_ENDINGS.sub("", word) for word in words)}


def training_loader(workload: Workload, name: str | None) -> Any:
    """The loader that training steps take batches from; None where they have none, or it is gone."""
    role = next((role for role in workload.roles if role.kind == "loaders" and role.name == name), None)
    return role.current(workload.namespace) if role is not None else None


def makes_ahead(loader: Any) -> bool:
    """Whether a loader makes batches in the background: by worker processes, or perhaps by threads of its own class."""
    from torch.utils.data import DataLoader

    return bool(getattr(loader, "num_workers", 0)) or type(loader).__iter__ is not DataLoader.__iter__


def steps_of_epoch(workload: Workload, name: str | None) -> int:
    """Steps in one pass over the loader that training steps take batches from; 0 if unknown, or if a step spans two epochs."""
    try:
        batches = len(training_loader(workload, name))
    except Exception:  # no loader, a stream, or whatever a data set of the user's raises
        return 0
    steps, rest = divmod(batches, max(workload.accumulation, 1))
    return 0 if rest else steps


def steps_of_pass(workload: Workload, name: str | None) -> int:
    """Estimated steps of one pass over the training data, even if the loader no longer exists; 0 if unknown."""
    try:
        return math.ceil(len(training_loader(workload, name)) / max(workload.accumulation, 1))
    except Exception:  # no loader, a stream, or whatever a data set of the user's raises
        passes = workload.conditions.loader_passes if workload.conditions is not None else 0
        return workload.steps // passes if passes else 0


def _loaders(namespace: dict[str, Any]) -> dict[str, Any]:
    """All loaders of the notebook by name, also those that an object such as a trainer holds."""
    from torch.utils.data import DataLoader

    named = {name: look_up(namespace, name) for name in names_by_id(namespace).values()}
    return {name: value for name, value in named.items() if isinstance(value, DataLoader)}


def _named(namespace: dict[str, Any], wanted: Any) -> str:
    name = wanted if isinstance(wanted, str) else names_by_id(namespace).get(id(wanted))
    if name is None:
        raise AccelError(
            f"held_out={type(wanted).__name__}", because="it is not a variable of this namespace",
            do="Give it a name there first: val_loader = …",
        )  # fmt: skip
    found = look_up(namespace, name)
    if found is None:
        raise UnknownName("held-out loader", name, _loaders(namespace))
    if not hasattr(found, "__iter__"):
        raise AccelError(
            f"--held-out {name}", because=f"it is {type(found).__name__}, which holds no batches", do=_DO
        )
    return name
