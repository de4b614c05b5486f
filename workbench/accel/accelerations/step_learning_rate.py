"""Scale the learning rate for as long as an optimizer steps, and only then.

A scheduler writes absolute rates into the optimizer, from numbers that it noted when it was built: a rate that was scaled
outside of a step would be overwritten, and one that a scheduler moved could not be put back exactly. Scaled inside the
step, schedulers work on as they were meant to, also those that the cell builds later, and there is nothing to undo.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@contextmanager
def scaled_in_steps(optimizer: torch.optim.Optimizer, factor: float) -> Iterator[None]:
    """While entered, `optimizer.step()` works with `factor` times the learning rate of each parameter group.

    >>> with scaled_in_steps(optimizer, 2.0):
    ...     optimizer.step()
    """
    scaling = _scalings[optimizer] = _Scaling(factor)
    hooks = [
        optimizer.register_step_pre_hook(scaling.begin),
        optimizer.register_step_post_hook(scaling.end),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        scaling.put_back()
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
        "def scale_rate(optimizer, args, kwargs):",
        '    optimizer.plain_rates = [group["lr"] for group in optimizer.param_groups]',
        "    for group in optimizer.param_groups:",
        f'        group["lr"] = group["lr"] * {factor!r}',
        "",
        "def put_rate_back(optimizer, args, kwargs):",
        "    for group, rate in zip(optimizer.param_groups, optimizer.plain_rates):",
        '        group["lr"] = rate',
        "",
        *(
            f"{name}.register_step_{when}_hook({hook})"
            for name in names
            for when, hook in (("pre", "scale_rate"), ("post", "put_rate_back"))
        ),
    ]


class _Scaling:
    """`begin` may come twice before `end`: `super().step()` is a step too, and an interrupt leaves a step in the middle."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._rates: list[tuple[dict[str, Any], Any, Any]] = []  # group, rate before, rate that was set
        self.seen = 1.0

    def begin(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self.put_back()
        for group in optimizer.param_groups:
            rate = group["lr"]
            group["lr"] = rate * self._factor
            self._rates.append((group, rate, group["lr"]))

    def end(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self.seen = min(
            (float(group["lr"]) / float(rate) for group, rate, _ in self._rates if float(rate)),
            default=self.seen,
        )
        self.put_back()

    def put_back(self) -> None:
        """The rates of before, except where somebody else has set one meanwhile."""
        for group, before, ours in self._rates:
            if group["lr"] is ours:
                group["lr"] = before
        self._rates.clear()


_scalings: weakref.WeakKeyDictionary[torch.optim.Optimizer, _Scaling] = weakref.WeakKeyDictionary()
