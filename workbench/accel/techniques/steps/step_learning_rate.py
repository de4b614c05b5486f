"""Scale the learning rate for as long as an optimizer steps, and only then.

A scheduler writes absolute rates into the optimizer, from numbers that it noted when it was built: a rate that was scaled
outside of a step would be overwritten, and one that a scheduler moved could not be put back exactly. Scaled inside the
step, schedulers work on as they were meant to, also those that the cell builds later, and there is nothing to undo.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from accel.techniques.source.plain_source import plain_source
from accel.techniques.steps import scaled_rate
from accel.techniques.steps.scaled_rate import ScaledRate

if TYPE_CHECKING:
    import torch


@contextmanager
def scaled_in_steps(optimizer: torch.optim.Optimizer, factor: float) -> Iterator[None]:
    """While entered, `optimizer.step()` works with `factor` times the learning rate of each parameter group.

    >>> with scaled_in_steps(optimizer, 2.0):
    ...     optimizer.step()
    """
    scaling = _scalings[optimizer] = ScaledRate(optimizer, factor)
    try:
        yield
    finally:
        scaling.remove()
        if _scalings.get(optimizer) is scaling:
            del _scalings[optimizer]


def scaled_steps(optimizer: torch.optim.Optimizer) -> float:
    """By how much the learning rate was scaled in the optimizer's last step; 1 if it was not."""
    scaling = _scalings.get(optimizer)
    return scaling.seen if scaling else 1.0


def scaled_in_steps_code(names: list[str], factor: float) -> list[str]:
    """The same in plain PyTorch."""
    return [
        "# Scaled inside the step only: schedulers go on with the rate that they know.",
        plain_source(scaled_rate),
        "",
        *(f"scale_rate({name}, {factor!r})" for name in names),
    ]


_scalings: weakref.WeakKeyDictionary[torch.optim.Optimizer, ScaledRate] = weakref.WeakKeyDictionary()
