"""Hooks that multiply an optimizer's learning rate while it steps.

What is below is also what `%accel export` writes into a cell: it uses what an optimizer has, and nothing else.
"""

from __future__ import annotations

from typing import Any


class ScaledRate:
    """`begin` may come twice before `end`: `super().step()` is a step too, and an interrupt leaves a step in the middle."""

    def __init__(self, optimizer: Any, factor: float) -> None:
        self.factor = factor
        self.rates: list[tuple[dict[str, Any], Any, Any]] = []  # group, rate before, rate that was set
        self.seen = 1.0
        self.hooks = [
            optimizer.register_step_pre_hook(self.begin),
            optimizer.register_step_post_hook(self.end),
        ]

    def begin(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Before the step."""
        self.put_back()
        for group in optimizer.param_groups:
            rate = group["lr"]
            group["lr"] = rate * self.factor
            self.rates.append((group, rate, group["lr"]))

    def end(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """After the step."""
        scaled = [float(group["lr"]) / float(rate) for group, rate, _ in self.rates if float(rate)]
        self.seen = min(scaled, default=self.seen)
        self.put_back()

    def put_back(self) -> None:
        """The rates of before, except where somebody else has set one meanwhile."""
        for group, before, ours in self.rates:
            if group["lr"] is ours:
                group["lr"] = before
        self.rates.clear()

    def remove(self) -> None:
        """Steps go on with the optimizer's own rate."""
        for hook in self.hooks:
            hook.remove()
        self.put_back()


def scale_rate(optimizer: Any, factor: float) -> None:
    """Scale for good; called again, as a cell that runs again does, the new factor takes the place of the one before."""
    if hasattr(optimizer, "_scaled_rate"):
        optimizer._scaled_rate.remove()
    optimizer._scaled_rate = ScaledRate(optimizer, factor)
