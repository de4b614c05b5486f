"""torch-pruning as the engine of pruning: it ranks the filters of a copy, and takes the least important ones out of it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from accel.techniques.model.bare_copy import tensors_in
from accel.techniques.pruning.excluded_layers import named_layer

if TYPE_CHECKING:
    import torch

    from accel.techniques.pruning.pruning_plan import Criterion, Types


def is_installed() -> bool:
    """Whether torch-pruning can be imported; it is not imported for that.

    >>> is_installed()
    True
    """
    return importlib.util.find_spec("torch_pruning") is not None


def _torch_pruning() -> Any:
    """The package; without timm, unless the user has imported that.

    Only its counters of FLOPs, which are not used here, ask for timm: 2.8 s of imports in the thread that cells run in, because a
    panel asks what can be pruned.
    """
    if "torch_pruning" in sys.modules or "timm" in sys.modules:
        return importlib.import_module("torch_pruning")
    sys.modules["timm"] = None  # type: ignore[assignment]  # importing it fails, which torch-pruning takes as not installed
    try:
        return importlib.import_module("torch_pruning")
    finally:
        del sys.modules["timm"]


def prune_numbered(
    numbered: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    sparsity: float,
    types: Types,
    exclude: tuple[str, ...],
    criterion: Criterion,
) -> None:
    """Prune a copy of a model; once the filters are chosen, its tensors hold the numbers of their positions.

    >>> prune_numbered(numbered, (images,), {}, sparsity=0.5, types="conv", exclude=(), criterion="l1")

    "taylor" reads the gradients that the copy has. Raises whatever torch-pruning stumbles over in a model it does not know.
    """
    import torch

    torch_pruning = _torch_pruning()
    kinds: dict[Types, list[type]] = {"conv": [torch.nn.modules.conv._ConvNd], "linear": [torch.nn.Linear]}
    kinds["all"] = kinds["conv"] + kinds["linear"]
    importance: Any = {
        "l1": lambda: torch_pruning.importance.MagnitudeImportance(p=1),
        "l2": lambda: torch_pruning.importance.MagnitudeImportance(p=2),
        "fpgm": lambda: torch_pruning.importance.FPGMImportance(),
        "taylor": lambda: torch_pruning.importance.TaylorImportance(),
    }[criterion]
    pruner = torch_pruning.pruner.BasePruner(
        numbered,
        args,
        importance(),
        pruning_ratio=sparsity - 1e-9,  # 10 × (1 - 0.9) is less than 1: rounding must not take one more
        ignored_layers=[named_layer(numbered, name) for name in exclude],
        root_module_types=kinds[types],
        # By itself it calls in more than one way, a wrong one first. What stands round a call (no_grad) is no layer.
        forward_fn=lambda module, _: module.forward(*args, **kwargs),
        output_transform=tensors_in,
        # The defaults are dictionaries shared by all pruners of the process, which keep every model alive.
        in_channel_groups={},
        out_channel_groups={},
        num_heads={},
    )
    ends = {node for node in pruner.DG.module2node.values() if not node.outputs}
    is_numbered = False
    for group in pruner.step(interactive=True):
        if any(dep.target in ends and pruner.DG.is_out_channel_pruning_fn(dep.handler) for dep, _ in group):
            continue  # as wide as the output
        if not is_numbered:
            for tensor in (*numbered.parameters(), *numbered.buffers()):
                tensor.data = torch.arange(tensor.numel(), dtype=torch.float64, device=tensor.device).view(
                    tensor.shape
                )
            for parameter in numbered.parameters():
                parameter.grad = None
            is_numbered = True
        group.prune()
