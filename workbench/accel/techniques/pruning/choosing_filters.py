"""Which filters a model can lose: chosen on a copy by an engine.

A filter does not go alone: the BatchNorm behind it, the inputs of the next layer, and what is added to its output go with
it. An engine follows that through the model's graph. The copy that it prunes holds, in the place of weights, the numbers
of their positions: what is left of them says what to keep. `prune_numbered` is all that is asked of an engine:
`torch_pruning_engine.py`, or `nni_engine.py` in an environment of its own.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError
from accel.techniques.model.bare_copy import bare_copy, detached, tensors_in, undisturbed
from accel.techniques.pruning.narrowed_model import narrow_plainly
from accel.techniques.pruning.pruning_plan import Criterion, Engine, Kept, PruningPlan, Types

if TYPE_CHECKING:
    import torch


def plan_pruning(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    sparsity: float,
    types: Types = "conv",
    exclude: tuple[str, ...] = (),
    criterion: Criterion = "l1",
    gradients: Mapping[str, torch.Tensor] | None = None,
    engine: Engine = "torch_pruning",
) -> PruningPlan:
    """Choose the filters that a call of the model with these inputs can do without; the model stays as it is.

    Layers whose width is that of the model's output are left out. `gradients`, by parameter name, are what the criterion
    "taylor" weighs the weights with. Raises AccelError where the model cannot be followed, or would not run afterwards.
    """
    import torch

    kwargs = kwargs or {}
    with undisturbed(model):
        args, kwargs = detached(args), detached(kwargs)
        try:
            numbered = bare_copy(model).requires_grad_(True)
            for name, parameter in numbered.named_parameters():
                gradient = (gradients or {}).get(name)
                parameter.grad = torch.zeros_like(parameter) if gradient is None else gradient.clone()
            prune_numbered = importlib.import_module(
                f"accel.techniques.pruning.{engine}_engine"
            ).prune_numbered
            prune_numbered(numbered, args, kwargs, sparsity, types, exclude, criterion)
        except AccelError:
            raise
        except Exception as error:  # an engine raises whatever it stumbles over in a model it does not know
            raise _refused(f"{engine} cannot follow the model ({type(error).__name__}: {error})") from error
        plan = _read(numbered, model)
        _try(model, plan, args, kwargs)
    return plan


def _read(numbered: torch.nn.Module, model: torch.nn.Module) -> PruningPlan:
    """What the numbers that are left say; raises AccelError where nothing went, or where shared weights disagree."""
    kept: dict[str, Kept] = {}
    widths: dict[str, dict[str, Any]] = {}
    filters: dict[str, tuple[int, int]] = {}
    after = dict(numbered.named_modules())
    for path, module, name, indices in _indices_left(model, after):
        kept[name] = indices
        changed = {
            width: vars(after[path])[width]
            for width, value in vars(module).items()
            if type(value) in (int, tuple) and vars(after[path]).get(width, value) != value
        }
        if changed:
            widths[path] = changed
        for attribute in ("out_channels", "out_features"):
            if attribute in changed:
                filters[path] = (getattr(module, attribute), changed[attribute])
    if not filters:
        raise AccelError(
            "prune",
            because="no layer of these types can lose a filter",
            do="Choose other types, a larger sparsity or fewer layers to exclude.",
        )
    return PruningPlan(kept, widths, filters)


def _indices_left(
    model: torch.nn.Module, after: Mapping[str, torch.nn.Module]
) -> Iterator[tuple[str, torch.nn.Module, str, Kept]]:
    """Each tensor that lost something: path and module that it is in, its full name, and the indices that stayed."""
    shared: dict[int, tuple[str, list[Any] | None]] = {}
    for path, module in model.named_modules():
        for slot in ("_parameters", "_buffers"):
            for own_name, tensor in getattr(module, slot).items():
                if tensor is None:
                    continue
                name = f"{path}.{own_name}" if path else own_name
                left = getattr(after[path], slot)[own_name]
                indices = _per_dimension(left, tensor.shape) if left.shape != tensor.shape else None
                text = None if indices is None else [None if one is None else one.tolist() for one in indices]
                first, its_text = shared.setdefault(id(tensor), (name, text))
                if its_text != text:
                    raise _refused(f"{name} and {first} share one tensor and lose different parts")
                if indices is not None:
                    yield path, module, name, indices


def _per_dimension(numbers: torch.Tensor, shape: torch.Size) -> Kept:
    """The indices that stayed in each dimension, from the numbers of the positions that stayed."""
    import torch

    numbers = numbers.detach().long()
    indices: list[torch.Tensor | None] = []
    rebuilt = torch.zeros_like(numbers)
    for dim, size in enumerate(shape):
        stride = math.prod(shape[dim + 1 :])
        row = numbers[tuple(slice(None) if other == dim else 0 for other in range(len(shape)))]
        index = (row // stride) % size
        rebuilt += (index * stride).view([-1 if other == dim else 1 for other in range(len(shape))])
        indices.append(None if len(index) == size else index)
    if not torch.equal(rebuilt, numbers):
        raise _refused("what is left of a tensor is not made of whole rows")
    return tuple(indices)


def _try(model: torch.nn.Module, plan: PruningPlan, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Call a pruned copy: a forward with a width written into it (`x.view(-1, 4096)`) fails or changes its output."""
    import torch

    for is_training in {model.training, True}:
        full, smaller = bare_copy(model).train(is_training), bare_copy(model).train(is_training)
        narrow_plainly(smaller, plan)
        with torch.no_grad():
            try:
                expected = [tensor.shape for tensor in tensors_in(full(*args, **kwargs))]
            except Exception as error:  # it does not run in this mode as it is: nothing to compare with
                if is_training == model.training:
                    raise _refused(f"the model does not run ({error})") from error
                continue
            try:
                got = [tensor.shape for tensor in tensors_in(smaller(*args, **kwargs))]
            except Exception as error:  # any error of the model's own code
                raise _refused(f"the pruned model does not run ({error})") from error
        if got != expected:
            raise _refused("the pruned model gives outputs of another shape")


def _refused(because: str) -> AccelError:
    because = " ".join(because.split()).rstrip(".")
    return AccelError(
        "prune",
        because=because if len(because) < 300 else because[:300] + "…",
        do="Exclude the layers in question, or leave this off for this model.",
    )
