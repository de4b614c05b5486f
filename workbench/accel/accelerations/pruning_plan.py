"""Which filters a model can lose: chosen on a copy by torch-pruning, told as the entries of each tensor that stay.

A filter does not go alone: the BatchNorm behind it, the inputs of the next layer, and what is added to its output go with
it. torch-pruning follows that through the model's graph. The copy that it prunes holds, in the place of weights, the
numbers of their positions: what is left of them says what to keep. `plan_pruning` is all that is asked of an engine:
another one (NNI, in an environment of its own) would come in there.
"""

from __future__ import annotations

import copy
import importlib.util
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from accel.errors import AccelError

if TYPE_CHECKING:
    import torch

Criterion = Literal["l1", "l2", "fpgm", "taylor"]
Types = Literal["conv", "linear", "all"]
Kept = tuple["torch.Tensor | None", ...]  # for each dimension the indices that stay; None: all of them


@dataclass(frozen=True)
class PruningPlan:
    """What stays of each tensor, by its name in the state_dict, and the widths that modules have then.

    >>> plan_pruning(cnn, (images,), sparsity=0.5).filters
    {'conv1': (32, 16), 'conv2': (64, 32)}
    """

    kept: Mapping[str, Kept]
    widths: Mapping[str, Mapping[str, Any]]
    filters: Mapping[str, tuple[int, int]]

    def then(self, later: PruningPlan) -> PruningPlan:
        """Both in one: `later` was made for the model as this one leaves it."""
        kept = dict(self.kept)
        for name, indices in later.kept.items():
            before = kept.get(name, (None,) * len(indices))
            pairs = zip(before, indices, strict=True)
            kept[name] = tuple(a if b is None else b if a is None else a[b] for a, b in pairs)
        modules = {**self.widths, **later.widths}
        widths = {name: {**self.widths.get(name, {}), **later.widths.get(name, {})} for name in modules}
        filters = {
            name: (self.filters.get(name, later.filters.get(name, (0, 0)))[0], last[1])
            for name, last in {**self.filters, **later.filters}.items()
        }
        return PruningPlan(kept, widths, filters)


def is_installed() -> bool:
    """Whether torch-pruning can be imported; it is not imported for that."""
    return importlib.util.find_spec("torch_pruning") is not None


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
) -> PruningPlan:
    """Choose the filters that a call of the model with these inputs can do without; the model stays as it is.

    Layers whose width is that of the model's output are left out. `gradients`, by parameter name, are what the criterion
    "taylor" weighs the weights with. Raises AccelError where the model cannot be followed, or would not run afterwards.
    """
    import torch

    kwargs = kwargs or {}
    with _undisturbed(model):
        args, kwargs = _detached(args), _detached(kwargs)
        try:
            numbered = _bare_copy(model).requires_grad_(True)
            for name, parameter in numbered.named_parameters():
                gradient = (gradients or {}).get(name)
                parameter.grad = torch.zeros_like(parameter) if gradient is None else gradient.clone()
            _prune(numbered, args, kwargs, sparsity, types, exclude, criterion)
        except AccelError:
            raise
        except (
            Exception
        ) as error:  # torch-pruning raises whatever it stumbles over in a model it does not know
            raise _refused(
                f"torch-pruning cannot follow the model ({type(error).__name__}: {error})"
            ) from error
        plan = _read(numbered, model)
        _try(model, plan, args, kwargs)
    return plan


def _prune(
    numbered: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    sparsity: float,
    types: Types,
    exclude: tuple[str, ...],
    criterion: Criterion,
) -> None:
    """Prune a copy whose entries become the numbers of their positions once the choice is made."""
    import torch
    import torch_pruning

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
        ignored_layers=[_layer(numbered, name) for name in exclude],
        root_module_types=kinds[types],
        # By itself it calls in more than one way, a wrong one first. What stands round a call (no_grad) is no layer.
        forward_fn=lambda module, _: module.forward(*args, **kwargs),
        output_transform=_tensors,
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


def _read(numbered: torch.nn.Module, model: torch.nn.Module) -> PruningPlan:
    """What the numbers that are left say; raises AccelError where nothing went, or where shared weights disagree."""
    kept: dict[str, Kept] = {}
    widths: dict[str, dict[str, Any]] = {}
    filters: dict[str, tuple[int, int]] = {}
    shared: dict[int, tuple[str, list[Any] | None]] = {}
    after = dict(numbered.named_modules())
    for path, module in model.named_modules():
        smaller = after[path]
        for slot in ("_parameters", "_buffers"):
            for name, tensor in getattr(module, slot).items():
                if tensor is None:
                    continue
                full_name = f"{path}.{name}" if path else name
                left = getattr(smaller, slot)[name]
                indices = _per_dimension(left, tensor.shape) if left.shape != tensor.shape else None
                text = None if indices is None else [None if one is None else one.tolist() for one in indices]
                if shared.setdefault(id(tensor), (full_name, text))[1] != text:
                    raise _refused(
                        f"{full_name} and {shared[id(tensor)][0]} share one tensor and lose different parts"
                    )
                if indices is not None:
                    kept[full_name] = indices
        changed = {
            name: vars(smaller)[name]
            for name, value in vars(module).items()
            if type(value) in (int, tuple) and vars(smaller).get(name, value) != value
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

    from accel.accelerations.narrowed_model import narrow_plainly

    for is_training in {model.training, True}:
        full, smaller = _bare_copy(model).train(is_training), _bare_copy(model).train(is_training)
        narrow_plainly(smaller, plan)
        with torch.no_grad():
            try:
                expected = [tensor.shape for tensor in _tensors(full(*args, **kwargs))]
            except Exception as error:  # it does not run in this mode as it is: nothing to compare with
                if is_training == model.training:
                    raise _refused(f"the model does not run ({error})") from error
                continue
            try:
                got = [tensor.shape for tensor in _tensors(smaller(*args, **kwargs))]
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


def _layer(model: torch.nn.Module, name: str) -> torch.nn.Module:
    try:
        return model.get_submodule(name)
    except AttributeError:
        layers = ", ".join(
            path for path, module in model.named_modules() if path and not [*module.children()]
        )
        do = f"Write names from this list: {layers[:300]}."
        raise AccelError(f'prune(exclude="{name}")', because="the model has no such layer", do=do) from None


@contextmanager
def _undisturbed(model: torch.nn.Module) -> Iterator[None]:
    """Neither random numbers nor the modes that the call came with have a say, and warnings of the engine stay away."""
    import torch

    devices = {parameter.device for parameter in model.parameters()}
    cuda = [device for device in devices if device.type == "cuda"]
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=cuda))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for kind in {"cpu"} | {device.type for device in cuda}:
            stack.enter_context(torch.autocast(kind, enabled=False))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        yield


def _bare_copy(model: torch.nn.Module) -> torch.nn.Module:
    """A copy without the user's hooks: what they collect or print is about the user's own calls."""
    copied = copy.deepcopy(model)
    for module in copied.modules():
        for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            vars(module)[hooks].clear()
    return copied


def _tensors(output: Any) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves(dict(output) if isinstance(output, Mapping) else output)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _detached(value: Any) -> Any:
    import torch
    from torch.utils._pytree import tree_map

    return tree_map(lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf, value)
