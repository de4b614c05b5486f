"""Which loader holds data that the training does not see: the one named, or one that is found by its name."""

from __future__ import annotations

from typing import Any

from accel.errors import AccelError, UnknownName
from accel.workload.roles import names_by_id
from accel.workload.workload import Workload, look_up

_WORDS = (
    "val",
    "dev",
    "held",
    "eval",
    "test",
)  # the first that a name holds wins: tests are kept for the very end
_DO = (
    'Name one, as in --held-out val_loader; or give --metric a function that needs none: "def metric(model)".'
)


def find_held_out(workload: Workload, training: str | None, wanted: Any = None) -> str:
    """The name of the held-out loader; `training` names the one that steps take batches from.

    >>> find_held_out(workload, "loader")
    'val_loader'

    Raises AccelError where there is none, or several and no name tells them apart.
    """
    if wanted is not None:
        return _named(workload.namespace, wanted)
    loaders = _loaders(workload.namespace)
    trains = training_loader(workload, training)
    others = {name: loader for name, loader in loaders.items() if loader is not trains}
    for word in _WORDS:
        for name in others:
            last = name.rpartition(".")[2].lower()
            if word in last and "train" not in last:
                return name
    unseen = [
        name
        for name, loader in others.items()
        if "train" not in name.lower() and (trains is None or loader.dataset is not trains.dataset)
    ]
    if trains is None:  # then a loader that the cell reads may be the training's own
        read = {role.name for role in workload.roles if role.kind == "loaders"}
        unseen = [name for name in unseen if name not in read]
    if len(unseen) == 1:
        return unseen[0]
    if unseen:
        raise AccelError(
            "Quality on held-out data",
            because=f"several loaders could be meant: {', '.join(sorted(unseen))}",
            do=_DO,
        )
    known = f" (there is {', '.join(sorted(loaders))})" if loaders else ""
    raise AccelError(
        "Quality on held-out data",
        because=f"no DataLoader of the notebook holds data that the training does not see{known}",
        do="Make a DataLoader for it, named for example val_loader. " + _DO,
    )


def training_loader(workload: Workload, name: str | None) -> Any:
    """The loader that training steps take batches from; None where they have none, or it is gone."""
    role = next((role for role in workload.roles if role.kind == "loaders" and role.name == name), None)
    return role.current(workload.namespace) if role is not None else None


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
