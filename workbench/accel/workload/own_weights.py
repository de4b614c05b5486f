"""Whether a model's weights come from somewhere that `reset_parameters()` would not lead back to, as far as can be told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType
from typing import TYPE_CHECKING

from accel.workload.new_weights import layers_that_keep

if TYPE_CHECKING:
    from torch import nn

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
