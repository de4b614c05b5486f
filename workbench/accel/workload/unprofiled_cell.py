"""A cell that was not profiled as a Workload: what of the notebook it reads, by kind; nothing that only a run would show."""

from __future__ import annotations

import weakref
from typing import Any

from accel.workload.cell_names import names_read, names_written
from accel.workload.replica import Kind
from accel.workload.roles import names_by_id
from accel.workload.workload import Role, Workload, look_up


def unprofiled_workload(source: str, filename: str, namespace: dict[str, Any]) -> Workload:
    """The models, criteria, optimizers and loaders that the cell reaches, also through functions of earlier cells.

    >>> unprofiled_workload("train(model, loader)", "<cell>", namespace).objects().models["model"]
    """
    reads = names_read(source, namespace)
    roles = []
    for name in sorted(names_by_id(namespace).values(), key=lambda name: _place(name, reads)):
        if name.split(".")[0] in reads and (kind := _kind_of(name, found := look_up(namespace, name))):
            roles.append(Role(kind, name, False, weakref.ref(found), type(found).__qualname__))
    return Workload(
        cell=source, source=source, filename=filename, namespace=namespace, reads=reads, writes=names_written(source),
        roles=tuple(roles), boundary="optimizer", accumulation=1, steps=0, step_ms=float("nan"), samples_per_step=None,
    )  # fmt: skip


def training_loader_of(workload: Workload) -> str | None:
    """The loader that such a cell trains with, by name or as the only data it reads; None where it cannot be told."""
    from torch.utils.data import DataLoader, Dataset

    loaders = [role.name for role in workload.roles if role.kind == "loaders"]
    trains = [name for name in loaders if "train" in name.rpartition(".")[2].lower()]
    read = [workload.namespace.get(name) for name in workload.reads]
    makes_its_own = any(value is DataLoader or isinstance(value, Dataset) for value in read)
    return next(iter(trains), loaders[0] if len(loaders) == 1 and not makes_its_own else None)


def _place(name: str, reads: tuple[str, ...]) -> int:
    first = name.split(".")[0]
    return reads.index(first) if first in reads else len(reads)


def _kind_of(name: str, value: Any) -> Kind | None:
    from torch import nn, optim
    from torch.utils.data import DataLoader

    if isinstance(value, DataLoader):
        return "loaders"
    if isinstance(value, optim.Optimizer):
        return "optimizers"
    if not isinstance(value, nn.Module):
        return None
    words = f"{name} {type(value).__name__}".lower()
    has_parameters = next(value.parameters(), None) is not None
    return "criteria" if not has_parameters and ("loss" in words or "criterion" in words) else "models"
