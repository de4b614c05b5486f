"""A model's tensors cut down in place, with gradients and optimizer state, and put back.

Parameters stay the same objects: the user's optimizer, schedulers and functions hold them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from accel.techniques.steps.live_optimizers import live_optimizers, state_of

if TYPE_CHECKING:
    import torch

    from accel.techniques.pruning.pruning_plan import Kept, PruningPlan


class NarrowedModel:
    """A model that can be cut down by a plan, further by another, and widened again.

    >>> narrowed = NarrowedModel(model)
    >>> narrowed.narrow(plan_pruning(model, (images,), sparsity=0.5))
    >>> narrowed.widen()

    Widening puts what was kept back at its place, with the values it has by then; what was cut off has the values it had
    when it was cut off, and zeros in gradients and optimizer state that came into being meanwhile.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        from torch.utils.weak import WeakTensorKeyDictionary

        self.model = model
        self.plan: PruningPlan | None = None
        self._full: Any = WeakTensorKeyDictionary()  # each tensor that was cut, with its data of before
        self._widths: list[tuple[torch.nn.Module, str, Any]] = []

    def narrow(self, plan: PruningPlan) -> None:
        """Cut the model down by a plan that was made for it as it is now; wholly, or an interrupt leaves it whole."""
        whole = plan if self.plan is None else self.plan.then(plan)
        self.widen()
        cuts = [
            (each, _cut(each.data, kept, tensor.shape))
            for tensor, kept, belonging in _with_companions(self.model, whole)
            for each in (tensor, *belonging)
        ]
        try:
            for tensor, data in cuts:
                self._full[tensor] = tensor.data
                _replace(tensor, data)
            for module, name, value in _widths(self.model, whole):
                self._widths.append((module, name, getattr(module, name)))
                setattr(module, name, value)
            self.plan = whole
        except BaseException:
            self._put_back(list(self._full.items()))
            raise

    def widen(self) -> None:
        """Make everything as wide as it was; nothing for a model that is not cut down."""
        if self.plan is None:
            return
        wide = []
        for tensor, kept, belonging in _with_companions(self.model, self.plan):
            shape = self._full[tensor].shape
            for each in (tensor, *belonging):
                full = self._full[each] if each in self._full else _zeros(each, tensor.shape, shape)
                full = full.to(device=each.device, dtype=each.dtype)  # as it is by now
                _put(full, kept, each.data, tensor.shape)
                wide.append((each, full))
        self._put_back(wide)

    def _put_back(self, wide: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        try:
            self._widen_to(wide)
        except BaseException:
            self._widen_to(wide)  # there is no other way back: an interrupt waits for it
            raise

    def _widen_to(self, wide: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        for tensor, data in wide:
            _replace(tensor, data)
        for module, name, value in reversed(self._widths):
            setattr(module, name, value)
        self._widths.clear()
        self._full.clear()
        self.plan = None


def narrow_plainly(model: torch.nn.Module, plan: PruningPlan) -> None:
    """Cut down a model that nobody trains or wants back."""
    for tensor, kept in _named(model, plan):
        tensor.grad = None
        tensor.data = _cut(tensor.data, kept, tensor.shape)
    for module, name, value in _widths(model, plan):
        setattr(module, name, value)


def _widths(model: torch.nn.Module, plan: PruningPlan) -> Iterator[tuple[torch.nn.Module, str, Any]]:
    for path, attributes in plan.widths.items():
        module = model.get_submodule(path)
        for name, value in attributes.items():
            yield module, name, value


def _named(model: torch.nn.Module, plan: PruningPlan) -> Iterator[tuple[torch.Tensor, Kept]]:
    """Each tensor that the plan cuts, once."""
    seen: set[int] = set()
    for full_name, kept in plan.kept.items():
        path, _, name = full_name.rpartition(".")
        module = model.get_submodule(path)
        tensor = module._parameters[name] if name in module._parameters else module._buffers[name]
        if tensor is not None and id(tensor) not in seen:
            seen.add(id(tensor))
            yield tensor, kept


def _with_companions(
    model: torch.nn.Module, plan: PruningPlan
) -> Iterator[tuple[torch.Tensor, Kept, list[torch.Tensor]]]:
    """Each tensor that the plan cuts, with its gradient and what optimizer state has its shape (or 1 where that is wide).

    The optimizers are all of this process: one that the cell built, or that nobody named, holds state as well.
    """
    import torch

    states_of_all = [state_of(optimizer) for optimizer in live_optimizers()]
    for tensor, kept in _named(model, plan):
        states = (value for state in states_of_all for value in state.get(tensor, {}).values())
        candidates = {id(value): value for value in (tensor.grad, *states) if isinstance(value, torch.Tensor)}
        yield (
            tensor,
            kept,
            [
                value
                for value in candidates.values()
                if value.dim() == tensor.dim()
                and all(size in (1, wide) for size, wide in zip(value.shape, tensor.shape, strict=True))
                and any(
                    index is not None and size == wide
                    for index, size, wide in zip(kept, value.shape, tensor.shape, strict=True)
                )
            ],
        )


def _cut(data: torch.Tensor, kept: Kept, shape: torch.Size) -> torch.Tensor:
    """The entries that stay, in a tensor of its own whose dimensions lie in memory in the order they lay in."""
    import torch

    for dim, index in enumerate(kept):
        if index is not None and data.shape[dim] == shape[dim]:
            small = data.index_select(dim, index.to(data.device))
            order = _order_in_memory(data)
            data = torch.empty_permuted(small.shape, order, dtype=small.dtype, device=small.device).copy_(
                small
            )
    return data


def _put(full: torch.Tensor, kept: Kept, data: torch.Tensor, narrow_shape: torch.Size) -> None:
    """Write the entries that stayed back to where they were."""
    import torch

    indices = []
    for dim, size in enumerate(full.shape):
        index = kept[dim] if data.shape[dim] == narrow_shape[dim] and size != data.shape[dim] else None
        index = torch.arange(size) if index is None else index
        indices.append(index.to(full.device).view([-1 if one == dim else 1 for one in range(full.dim())]))
    full.index_put_(tuple(indices), data)


def _zeros(tensor: torch.Tensor, narrow_shape: torch.Size, full_shape: torch.Size) -> torch.Tensor:
    """Zeros in the full width of a gradient or state, which came into being narrow; laid out like it."""
    import torch

    sizes = [
        full if size == narrow else size
        for size, narrow, full in zip(tensor.shape, narrow_shape, full_shape, strict=True)
    ]
    order = _order_in_memory(tensor)
    full = torch.empty_permuted(sizes, order, dtype=tensor.dtype, device=tensor.device)
    return full.zero_()


def _order_in_memory(tensor: torch.Tensor) -> list[int]:
    """The dimensions from the one with the longest stride to the one with the shortest."""
    strides = tensor.stride()
    return sorted(range(tensor.dim()), key=lambda dim: -strides[dim])


def _replace(tensor: torch.Tensor, data: torch.Tensor) -> None:
    """Give a tensor other data.

    A graph that is still alive (`loss` of the last step) holds on to the node that receives this tensor's gradient, which
    expects the old shape, and torch goes on using it; only another dtype makes it let go of it.
    """
    import torch

    if tensor.requires_grad and tensor.is_leaf:
        other = torch.float64 if tensor.dtype != torch.float64 else torch.float32
        tensor.data = torch.empty(0, dtype=other, device=tensor.device)
    tensor.data = data
