"""The objects of a training cell that an acceleration may change: copies in a worker, or the notebook's own after keep."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    import torch
    from torch.utils.data import DataLoader

    from accel.workload.training_code import TrainingCode

Kind = Literal["models", "optimizers", "criteria", "schedulers", "scalers", "loaders"]
KINDS: tuple[Kind, ...] = get_args(Kind)


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
    trains_on: str = ""  # the device of the training's models, where this replica holds none of them

    @property
    def device(self) -> str:
        """Where the first model's parameters live, or the first optimizer's: "cpu", "cuda:0" …; "cpu" when nobody knows."""
        of_models = (p for model in self.models.values() for p in model.parameters())
        of_optimizers = (
            p for each in self.optimizers.values() for g in each.param_groups for p in g["params"]
        )
        return next((str(p.device) for p in chain(of_models, of_optimizers)), self.trains_on or "cpu")

    @property
    def device_type(self) -> str:
        """The kind of that device: "cpu", "cuda" …"""
        return self.device.partition(":")[0]

    def by_kind(self) -> dict[str, dict[str, Any]]:
        """All objects: their names by kind, the field that they are in."""
        return {
            each.name: held for each in fields(self) if isinstance(held := getattr(self, each.name), dict)
        }


def merged(replicas: list[Replica]) -> Replica:
    """One replica with the objects of several; equal names get a number."""
    whole = Replica(trains_on=next((each.trains_on for each in replicas if each.trains_on), ""))
    for replica in replicas:
        for kind, named in replica.by_kind().items():
            target = getattr(whole, kind)
            for name, thing in named.items():
                label = name
                while label in target and target[label] is not thing:
                    label += "'"
                target[label] = thing
    return whole
