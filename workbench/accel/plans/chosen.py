"""Which objects of a cell a part of a plan acts on: `channels_last(on="generator")` leaves the discriminator as it is.

Names are the user's own: of models, optimizers, loaders … in the profiled cell. An object that the cell builds itself has no
name yet when it is first used; it is known by its class.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError, UnknownName
from accel.workload.replica import Replica

if TYPE_CHECKING:
    from accel.accelerations.acceleration import Acceleration
    from accel.workload.workload import Role, Workload

ON = "on"  # what every entry can be told beside its own knobs
OF_THE_PROCESS = ("settings", "threads", "environment", "hygiene")  # layers whose entries change no object
# What an acceleration of each layer changes, unless it says so itself.
KIND_OF_LAYER = {
    "model": "models", "numerics": "models", "compile": "models", "data": "loaders", "optimizer": "optimizers",
}  # fmt: skip


def kinds_changed(entry: Acceleration) -> tuple[str, ...]:
    """The kinds of objects that an entry changes: those it names in `changes`, else those of its layer.

    >>> kinds_changed(CacheDataset())
    ('loaders',)
    """
    of_layer = KIND_OF_LAYER.get(entry.layer)
    return tuple(getattr(entry, "changes", (of_layer,) if of_layer else ()))


def read_names(written: str) -> tuple[str, ...]:
    """The names of `on="generator, optimizer_g"`.

    Raises AccelError for what cannot be a name.
    """
    names = tuple(dict.fromkeys(name.strip() for name in written.split(",") if name.strip()))
    if not names or not all(part.isidentifier() for name in names for part in name.split(".")):
        raise AccelError(
            f"on={written!r}",
            because="it is no list of names",
            do='Write for example on="generator,optimizer_g".',
        )
    return names


def only(replica: Replica, names: tuple[str, ...]) -> Replica:
    """The replica with the named objects alone; what the cell built has the name of its class as a label (`Discovery`).

    >>> only(replica, ("generator",)).models
    {'generator': Generator(...)}
    """
    kept: dict[str, Any] = {
        kind: {label: thing for label, thing in named.items() if _name_of(label) in names}
        for kind, named in replica.by_kind().items()
    }
    return Replica(**kept, is_process_wide=replica.is_process_wide, trains_on=replica.device)


def only_roles(workload: Workload, names: tuple[str, ...]) -> Workload:
    """The workload as if the cell used nothing but the named objects."""
    chosen = tuple(role for role in workload.roles if role.name in names)
    calls = workload.model_calls
    if calls is not None:
        calls = tuple(call for call in calls if call.model in ("", *names))
    return replace(workload, roles=chosen, model_calls=calls, trains_on=workload.objects().device)


def resolve(names: Collection[str], workload: Workload) -> tuple[str, ...]:
    """The names with what belongs to them: a model's optimizers, and the class of what the cell builds anew.

    >>> resolve(["generator"], workload)
    ('generator', 'optimizer_g')

    Raises UnknownName for a name that the cell was not seen to use, and AccelError where only the class of an object tells it,
    and another object that the cell builds is of that class too.
    """
    roles = {role.name: role for role in workload.roles}
    classes = {role.class_name for role in workload.roles if role.is_built_by_cell}
    found: dict[str, None] = {}
    for name in names:
        if name not in roles and name not in classes:
            raise UnknownName("object of the profiled cell", name, roles)
        found[name] = None
        if name in roles and roles[name].is_built_by_cell:
            found[_class_of(roles[name], workload, names)] = None
        for optimizer in _optimizers_of(name, workload):
            if not roles[optimizer].is_built_by_cell:
                found[optimizer] = None
            elif not _alike(roles[optimizer], workload, names):
                found |= dict.fromkeys((optimizer, roles[optimizer].class_name))
    return tuple(found)


def _optimizers_of(model: str, workload: Workload) -> list[str]:
    objects = workload.objects()
    if model not in objects.models:
        return []
    own = {id(parameter) for parameter in objects.models[model].parameters()}
    return [
        name
        for name, optimizer in objects.optimizers.items()
        if any(id(parameter) in own for group in optimizer.param_groups for parameter in group["params"])
    ]


def _class_of(role: Role, workload: Workload, chosen: Collection[str]) -> str:
    """The class that the object is known by in another run; another object of it must be chosen as well."""
    if alike := _alike(role, workload, chosen):
        raise AccelError(
            f'on="{role.name}"',
            because=f"the cell builds it anew in each run, and {alike[0]} is a {role.class_name} too: they look alike",
            do="Build them in an earlier cell, or name both.",
        )
    return role.class_name


def _alike(role: Role, workload: Workload, chosen: Collection[str]) -> list[str]:
    """Other objects of its class that the cell builds, and that are not chosen."""
    return [
        other.name
        for other in workload.roles
        if other.is_built_by_cell and (other.kind, other.class_name) == (role.kind, role.class_name)
        and other.name not in (role.name, *chosen)
    ]  # fmt: skip


def _name_of(label: str) -> str:
    """Without what tells two objects of one class apart: an address, or a prime."""
    return label.partition(" ")[0].rstrip("'")
