"""Whether an optimizer's step is part of another one: `super().step()`, or an optimizer that steps another."""

from __future__ import annotations

from types import FrameType


def is_inside_another_step(step: FrameType) -> bool:
    """Whether torch's wrapper of `step`, in whose frame a hook is called, is on the stack twice.

    >>> def hook(optimizer, args, kwargs):
    ...     is_inside_another_step(sys._getframe(1))
    """
    outer = step.f_back
    while outer is not None and outer.f_code != step.f_code:  # equal, not the same, where a class was shipped
        outer = outer.f_back
    return outer is not None
