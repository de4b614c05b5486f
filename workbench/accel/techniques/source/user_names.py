"""What the user calls the objects that code is written for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from accel.errors import Reason

if TYPE_CHECKING:
    from accel.workload import Workload


def names_of(workload: Workload, kind: str) -> list[str]:
    """The user's expressions for the objects of one kind ("models", "optimizers" …), in order of first use.

    >>> names_of(workload, "models")
    ['generator', 'discriminator']
    """
    return list(dict.fromkeys(role.name for role in workload.roles if role.kind == kind))


_NOT_SEEN = {
    "models": Reason("No model was seen in the cell", "Profile a cell that calls a torch.nn.Module."),
    "optimizers": Reason("No optimizer was seen in the cell", "Profile a cell that calls optimizer.step()."),
    "loaders": Reason(
        "No DataLoader was seen in the cell",
        "Put the data into a torch.utils.data.DataLoader, or leave this off.",
    ),
}


def nothing_seen(workload: Workload, kind: str) -> list[Reason]:
    """The reason against an entry that changes objects of a kind of which the cell was seen to use none; else nothing.

    >>> nothing_seen(workload, "loaders")
    []
    """
    is_there = getattr(workload.objects(), kind) or names_of(workload, kind)
    return [] if is_there else [_NOT_SEEN[kind]]


def class_name(expression: str, ending: str) -> str:
    """A class name made of a user's expression: `trainer.model` becomes `TrainerModel` + ending."""
    words = re.findall(r"[A-Za-z0-9]+", expression)
    return "".join(word[:1].upper() + word[1:] for word in words) + ending
