"""What a scheduler leaves at its optimizer: a step that notes that it ran. Torch's pickles of optimizers do without it.

A scheduler looks for both, the step and the note, when it steps first; without them it warns of an order that was right.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

_COUNTS, CALLED = "_wrapped_by_lr_sched", "_opt_called"  # torch's own names


def note_of_steps(optimizer: Any) -> dict[str, bool]:
    """What a copy has to know of the steps so far; empty where no scheduler counts them.

    >>> note_of_steps(torch.optim.SGD(model.parameters()))
    {}
    """
    if not hasattr(vars(optimizer).get("step"), _COUNTS):
        return {}
    return {CALLED: getattr(optimizer, CALLED, False)}


def count_steps(optimizer: Any) -> None:
    """Let the optimizer's steps be noted, as torch's schedulers do it when they are built."""
    here = weakref.ref(optimizer)

    @functools.wraps(type(optimizer).step)
    def step(*args: Any, **kwargs: Any) -> Any:
        own = here()
        assert own is not None, "its own attribute is called"
        setattr(own, CALLED, True)
        return type(own).step(own, *args, **kwargs)  # as it is now: a profile changes the class's

    setattr(step, _COUNTS, True)
    optimizer.step = step
