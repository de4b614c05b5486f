"""The objects of a training cell that an acceleration may change: copies in a worker, or the notebook's own after keep."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch.utils.data import DataLoader

    from accel.workload.training_code import TrainingCode


@dataclass(eq=False)
class Replica:
    """Models, optimizers, loaders … of one workload by the names the user gave them.

    An acceleration's `apply(replica)` changes these objects in place (identity is kept: functions and trainers that hold
    them see the change) and puts everything back when its context exits.

    Objects that the cell itself builds are found when they are first used; each comes as a replica of its own, holding only
    that object, with `is_process_wide` False: settings of the whole process (threads, allocator) were applied already.

    >>> Replica(models={"model": model}, optimizers={"optimizer": optimizer})
    """

    models: dict[str, torch.nn.Module] = field(default_factory=dict)
    optimizers: dict[str, torch.optim.Optimizer] = field(default_factory=dict)
    criteria: dict[str, torch.nn.Module] = field(default_factory=dict)
    schedulers: dict[str, Any] = field(default_factory=dict)
    scalers: dict[str, Any] = field(default_factory=dict)
    loaders: dict[str, DataLoader[Any]] = field(default_factory=dict)
    codes: dict[str, TrainingCode] = field(default_factory=dict)
    is_process_wide: bool = True

    @property
    def device_type(self) -> str:
        """Where the first model's parameters live, or the first optimizer's: "cpu", "cuda" …; "cpu" when there are none."""
        of_models = (p for model in self.models.values() for p in model.parameters())
        of_optimizers = (
            p for each in self.optimizers.values() for g in each.param_groups for p in g["params"]
        )
        return next((p.device.type for p in chain(of_models, of_optimizers)), "cpu")


def merged(replicas: list[Replica]) -> Replica:
    """One replica with the objects of several; equal names get a number."""
    whole = Replica()
    for replica in replicas:
        for role in (each.name for each in fields(Replica) if each.name != "is_process_wide"):
            target = getattr(whole, role)
            for name, thing in getattr(replica, role).items():
                label = name
                while label in target and target[label] is not thing:
                    label += "'"
                target[label] = thing
    return whole
