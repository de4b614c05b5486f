"""A model whose parameters are spread over the ranks, in place and for a while: FSDP2 put on, and taken off again."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError
from accel.techniques.sharding.sharded_optimizer import ShardedOptimizers, shard_like
from accel.workload.exchanged_values import from_all_ranks

if TYPE_CHECKING:
    import torch
    from torch import nn

_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_state_dict_pre_hooks", "_state_dict_hooks",
          "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_forward_hooks_with_kwargs",
          "_forward_pre_hooks_with_kwargs")  # fmt: skip
READ_AT = "accel_read_at"  # an attribute of a piece: pieces of different steps make no state
_sharded: weakref.WeakKeyDictionary[nn.Module, ShardedModel] = weakref.WeakKeyDictionary()


def sharding_of(model: nn.Module) -> ShardedModel | None:
    """What spreads this model's parameters over the ranks now; None where each rank has them whole.

    >>> sharding_of(model).own_bytes
    528384
    """
    return _sharded.get(model)


def original_parameters() -> dict[int, Any]:
    """The user's own parameters of all models that are spread now, by the id of the part that stands for one.

    >>> original_parameters()[id(next(model.parameters()))] is before
    True
    """
    return {
        id(part): original
        for each in _sharded.values() for original, part in zip(each._originals, each.parameters, strict=True)
    }  # fmt: skip


@dataclass(frozen=True)
class _Place:
    """Where a parameter is registered; one that is shared between layers has several."""

    held: dict[str, Any]
    name: str
    original: Any


class ShardedModel:
    """Each rank keeps a part of every parameter, of its gradient and of its optimizer state, until `take_off`.

    >>> sharding = ShardedModel(model, blocks, shard=partial(fully_shard, mesh=mesh))
    >>> train(); sharding.take_off()

    FSDP2 puts other parameters into the model, which optimizers are given in place of those they had. The original ones stay
    behind empty and refuse every use, so that a list of parameters made earlier is an error and not a training without clipping.
    All ranks have to make it, and take it off, at the same place.
    """

    def __init__(
        self, model: nn.Module, blocks: Iterable[nn.Module], shard: Callable[[nn.Module], object]
    ) -> None:
        self.model, self.gathers = model, 0
        self._parts = [*blocks, model]
        self._places = [
            _Place(module._parameters, name, p)
            for module in model.modules() for name, p in module._parameters.items() if p is not None
        ]  # fmt: skip
        self._originals = list({id(each.original): each.original for each in self._places}.values())
        self._kinds = [type(p) for p in self._originals]
        self.whole_bytes = sum(p.nbytes for p in self._originals)
        _send_to_all(self._originals)
        before = [(module, type(module), set(vars(module)), _hooks(module)) for module in model.modules()]
        for part in self._parts:
            shard(part)
        now = {id(each.original): each.held[each.name] for each in self._places}
        self.parameters = [now[id(original)] for original in self._originals]  # this rank's part of each
        self._unsharded = self._gathered_once()
        self._added = [
            (module, kind, set(vars(module)) - names, [(held, key) for held, key in _hooks(module) if (held, key) not in hooks])
            for module, kind, names, hooks in before
        ]  # fmt: skip
        self._order = 0
        self._count = [
            part.register_forward_pre_hook(partial(self._gathered, number)) for number, part in enumerate(self._parts)
        ]  # fmt: skip
        self._count.append(model.register_state_dict_post_hook(partial(self._was_read)))  # type: ignore[no-untyped-call]
        self._leave_behind()
        _sharded[model] = self

    def _leave_behind(self) -> None:
        """The parts take over what the original parameters had; those hold nothing any more."""
        import torch

        for original, part in zip(self._originals, self.parameters, strict=True):
            vars(part).update(vars(original))  # marks of the user's own
            if original.grad is not None:
                part.grad = shard_like(original.grad, part)
        self._optimizers = ShardedOptimizers(self._originals, self.parameters)
        for original in self._originals:
            original.grad = None
            original.data = torch.empty(0, dtype=original.dtype, device=original.device)
            original.__class__ = _left_behind()

    @property
    def parameter_ids(self) -> set[int]:
        """The ids of all tensors that stand for a parameter: the parts, the whole ones, and the original ones."""
        return {id(p) for p in (*self._originals, *self.parameters, *self._unsharded)}

    @property
    def own_bytes(self) -> int:
        """What this rank keeps of the parameters."""
        return int(sum(p.to_local().nbytes for p in self.parameters))

    @property
    def state_bytes(self) -> int:
        """What this rank keeps between two steps: its parts of parameters, gradients and optimizer state."""
        gradients = sum(p.grad.to_local().nbytes for p in self.parameters if p.grad is not None)
        return int(self.own_bytes + gradients + self._optimizers.own_bytes)

    def take_off(self, *, gather: bool = True) -> None:
        """Put the user's own parameters back, with what all ranks have made of them.

        `gather` False: without asking the other ranks, as after an error, when they may be elsewhere; the parameters are lost.
        """
        import torch

        _sharded.pop(self.model, None)
        alike = not gather or _is_alike(self._order)
        gather = gather and alike
        for part in self._parts:
            part.reshard()  # type: ignore[operator]
        for original, part, kind in zip(self._originals, self.parameters, self._kinds, strict=True):
            original.__class__ = kind
            if gather:
                original.data = part.detach().full_tensor()
                torch.autograd.graph.increment_version(original)  # others tell by it that the values are new
                original.grad = None if part.grad is None else part.grad.full_tensor()
            original.requires_grad_(part.requires_grad)
        self._optimizers.take_off(gather=gather)
        for place in self._places:
            place.held[place.name] = place.original
        for handle in self._count:
            handle.remove()
        for module, kind, names, hooks in self._added:
            module.__class__ = kind
            for held, key in hooks:
                vars(module)[held].pop(key, None)
            for name in names:
                vars(module).pop(name, None)
        if not alike:
            raise AccelError(
                "fully_shard", because="the ranks computed different blocks, and so put together parts of different ones",
                do="Draw alike on all ranks which block is skipped (LayerDrop), or leave fully_shard out.",
            )  # fmt: skip

    def _gathered_once(self) -> list[Any]:
        """The whole parameters, which autograd will see: made by putting each part's together once."""
        found: list[Any] = []
        for part in self._parts:
            part.unshard()  # type: ignore[operator]
            found += [p for p in part.parameters() if not hasattr(p, "full_tensor")]
            part.reshard()  # type: ignore[operator]
        return found

    def _gathered(self, number: int, part: nn.Module, inputs: object) -> None:
        """Runs after FSDP's own hook: the parameters are whole now, or it did nothing."""
        self._order = hash((self._order, number))
        self.gathers += any(not hasattr(p, "full_tensor") for p in part.parameters())

    def _was_read(self, _: nn.Module, state: dict[str, Any], *__: object) -> None:
        """The cell takes a state of the model: its pieces, and copies of them, bear after which calls that was."""
        for value in state.values():
            if hasattr(value, "full_tensor"):
                setattr(value, READ_AT, self._order)


def _hooks(module: nn.Module) -> list[tuple[str, int]]:
    return [(held, key) for held in _HOOKS for key in vars(module).get(held, ())]


def _is_alike(order: int) -> bool:
    """Whether all ranks called the same blocks in the same order: gathers of equal size match whichever block they are of."""
    return len(set(from_all_ranks(order))) == 1


def _send_to_all(parameters: Iterable[torch.Tensor]) -> None:
    """All ranks begin with rank 0's."""
    import torch.distributed as dist

    for p in parameters:
        dist.broadcast(p.detach(), 0)


@cache
def _left_behind() -> type:
    """The class of parameters that others have taken the place of."""
    from torch import nn

    class LeftBehind(nn.Parameter):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AccelError(
                "A parameter that was taken from the model before its first call in this cell",
                because="fully_shard has put another one in its place, of which each rank holds a part",
                do="Take parameters from the model where they are used: clip_grad_norm_(model.parameters(), 1.0).",
            )

    return LeftBehind
