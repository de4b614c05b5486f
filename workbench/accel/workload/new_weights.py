"""What another seed of a training starts from: other random numbers and, where they are wanted, new weights, in place."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

    from accel.workload.replica import Replica

Start = Literal["same", "new"]  # weights that every seed starts from: those of the notebook, or new ones


def seed_generators(replica: Replica, seed: int) -> None:
    """Seed torch's, Python's and numpy's random numbers, and the generators that belong to loaders.

    >>> seed_generators(replica, seed=1)
    """
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    for loader in replica.loaders.values():
        batches = getattr(loader, "batch_sampler", None)
        for holder in (loader, getattr(loader, "sampler", None), batches, getattr(batches, "sampler", None)):
            if isinstance(generator := getattr(holder, "generator", None), torch.Generator):
                generator.manual_seed(seed)


def give_new_weights(replica: Replica) -> None:
    """Initialise all layers anew by their own `reset_parameters()`, and let optimizers forget.

    >>> give_new_weights(replica)

    Frozen layers (no parameter wants a gradient) keep their weights, and so do layers named by `layers_that_keep`.
    """
    import torch

    with torch.no_grad():
        for model in replica.models.values():
            for module in model.modules():
                if (reset := _reset_of(module)) is not None and not _is_frozen(module):
                    reset()
    for optimizer in replica.optimizers.values():
        optimizer.state.clear()  # averages of the gradients of other weights


def layers_that_keep(model: torch.nn.Module) -> list[str]:
    """Layers that want gradients and cannot be initialised anew: they have no `reset_parameters()`.

    >>> layers_that_keep(model)
    ['scale']
    """
    return [
        name or type(model).__name__
        for name, module in model.named_modules()
        if any(p.requires_grad for p in module.parameters(recurse=False)) and _reset_of(module) is None
    ]


def _reset_of(module: torch.nn.Module) -> Any:
    from torch.nn.utils.parametrize import is_parametrized

    if is_parametrized(module):  # its reset would write into a tensor that is computed anew each time
        return None
    reset = getattr(module, "reset_parameters", None)
    if reset is None and any(True for _ in module.parameters(recurse=False)):
        reset = getattr(module, "_reset_parameters", None)  # nn.MultiheadAttention
    return reset if callable(reset) else None


def _is_frozen(module: torch.nn.Module) -> bool:
    own = list(module.parameters(recurse=False))
    return bool(own) and not any(p.requires_grad for p in own)
