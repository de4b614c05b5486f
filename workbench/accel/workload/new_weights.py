"""What another seed of a training starts from: other random numbers and, where they are wanted, new weights, in place."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch
    from torch import nn

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


_LOADING = re.compile(r"\bload_state_dict\(|\bfrom_pretrained\(|\binit\.\w+_\(|\.data\.\w+_\(")
_NO_INITIALISATION = ("forward", "reset_parameters")  # noise in a forward; what is drawn anew anyway


def why_weights_are_own(models: Iterable[nn.Module], cells: Sequence[str] = ()) -> str:
    """What speaks against drawing new weights by torch's own initialisation; "" where nothing does.

    >>> why_weights_are_own([torchvision.models.resnet18()])
    'ResNet initialises its weights itself'

    Pretrained weights look like any others, so this goes by the code: a layer with parameters that cannot be drawn anew, a
    class that uses torch.nn.init (all of torchvision's and the like do), a cell of the notebook that loads or sets weights.
    """
    for model in models:
        if kept := layers_that_keep(model):
            return f"{', '.join(kept[:5])}: weights without reset_parameters()"
        trained = (m for m in model.modules() if any(p.requires_grad for p in m.parameters()))
        for kind in dict.fromkeys(map(type, trained)):
            if any(map(_initialises, _own_code(kind))):
                return f"{kind.__name__} initialises its weights itself"
    loading = next((found for cell in cells if (found := _LOADING.search(cell))), None)
    return f"a cell of your notebook has {loading[0].strip('(.')}" if loading else ""


def _own_code(kind: type) -> Iterator[CodeType]:
    """Code of a class's functions, torch's own classes left out."""
    for owner in kind.__mro__:
        if not owner.__module__.startswith(("torch.", "builtins")):
            for name, function in vars(owner).items():
                code = getattr(function, "__code__", None)
                if isinstance(code, CodeType) and name not in _NO_INITIALISATION:
                    yield code


def _initialises(code: CodeType) -> bool:
    from torch.nn import init

    own = {name for name in dir(init) if name.endswith("_") and not name.startswith("_")}
    nested = (part for part in code.co_consts if isinstance(part, CodeType))
    return not own.isdisjoint(code.co_names) or any(map(_initialises, nested))
