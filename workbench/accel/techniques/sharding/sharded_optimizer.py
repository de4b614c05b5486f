"""Optimizers of a model that is spread over ranks: they update this rank's parts, with this rank's parts of their state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from accel.hooks.attribute_patches import AttributePatches
from accel.hooks.training_loop import before_step
from accel.techniques.steps.live_optimizers import live_optimizers
from accel.workload.namespace_reads import attributes_of

if TYPE_CHECKING:
    import torch


class ShardedOptimizers:
    """Every optimizer of these parameters has their parts instead, until `take_off`, its state included.

    >>> optimizers = ShardedOptimizers(originals, parts)
    >>> train(); optimizers.take_off()

    Those that exist already are found by what they hold, wherever the user keeps them; state that a cell loads later is
    cut before the step that uses it.
    """

    def __init__(self, originals: Sequence[Any], parts: Sequence[Any]) -> None:
        self._originals, self._parts = originals, parts
        self._shapes = {id(part): original.shape for original, part in zip(originals, parts, strict=True)}
        others = _by_id(originals, parts)
        for optimizer in optimizers_of(originals):
            _exchange(optimizer, others)
            self._cut(optimizer)
        self._patches = AttributePatches()
        before_step(self._patches, lambda optimizer, *_: self._cut(optimizer))

    @property
    def own_bytes(self) -> int:
        """What this rank keeps of their state."""
        return sum(
            value.to_local().nbytes if hasattr(value, "to_local") else value.nbytes
            for optimizer in optimizers_of(self._parts) for p in self._parts
            for _, value in _tensors(optimizer.state.get(p, {}))
        )  # fmt: skip

    def take_off(self, *, gather: bool = True) -> None:
        """Give them the original parameters back, with whole states; `gather` False: with no state, and no word to others."""
        import torch

        self._patches.take_back()
        others = _by_id(self._parts, self._originals)
        for optimizer in optimizers_of(self._parts):
            for part in self._parts:
                state = optimizer.state.get(part, {})
                for name, value in _tensors(state):
                    if hasattr(value, "full_tensor") and gather:
                        state[name] = value.full_tensor()
                        torch.autograd.graph.increment_version(state[name])
                if not gather:
                    optimizer.state.pop(part, None)
            _exchange(optimizer, others)

    def _cut(self, optimizer: torch.optim.Optimizer) -> None:
        for group in optimizer.param_groups:
            for p in group["params"]:
                shape = self._shapes.get(id(p))
                state = optimizer.state.get(p, {}) if shape is not None else {}
                for name, value in _tensors(state):
                    if value.shape == shape and not hasattr(value, "full_tensor"):
                        state[name] = shard_like(value, p)


def shard_like(whole: torch.Tensor, part: Any) -> torch.Tensor:
    """This rank's part of a tensor that every rank has whole, cut as a parameter of the same shape is.

    >>> shard_like(torch.zeros(4, 2), parameter).to_local().shape
    torch.Size([2, 2])
    """
    from torch.distributed.tensor import DTensor

    mesh = part.device_mesh
    rank, whole = mesh.get_local_rank(), whole.detach().contiguous()
    pieces = whole.chunk(mesh.size(), dim=0)
    own = pieces[rank] if rank < len(pieces) else whole[:0]
    return DTensor.from_local(
        own.clone(), mesh, part.placements, run_check=False, shape=whole.shape, stride=whole.stride()
    )


def optimizers_of(parameters: Sequence[Any]) -> list[torch.optim.Optimizer]:
    """Every optimizer of this process that holds one of these, in an order that is the same in all ranks.

    >>> optimizers_of([*model.parameters()])
    [Adam (…)]
    """
    wanted = {id(p): position for position, p in enumerate(parameters)}
    found: list[tuple[Any, torch.optim.Optimizer]] = []
    for each in live_optimizers():
        groups = attributes_of(each)["param_groups"]
        held = [wanted[id(p)] for group in groups for p in group["params"] if id(p) in wanted]
        if held:
            found.append(((type(each).__name__, held, _settings(each)), each))
    return [optimizer for _, optimizer in sorted(found, key=lambda pair: pair[0])]


def _settings(optimizer: torch.optim.Optimizer) -> str:
    return str([{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups])


def _by_id(old: Sequence[Any], new: Sequence[Any]) -> dict[int, Any]:
    return {id(a): b for a, b in zip(old, new, strict=True)}


def _exchange(optimizer: torch.optim.Optimizer, others: Mapping[int, Any]) -> None:
    """Other parameters in the place of those it has; the lists and the state stay the same objects."""
    for group in optimizer.param_groups:
        group["params"][:] = [others.get(id(p), p) for p in group["params"]]
    state = list(optimizer.state.items())
    optimizer.state.clear()
    optimizer.state.update((others.get(id(p), p), of_one) for p, of_one in state)


def _tensors(state: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The tensors of one parameter's state that are as large as it: not its count of steps."""
    import torch

    yield from [(k, v) for k, v in state.items() if isinstance(v, torch.Tensor) and v.dim()]
