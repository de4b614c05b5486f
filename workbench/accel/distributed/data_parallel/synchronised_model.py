"""DistributedDataParallel round a model's call, in place: the user's model, its names and its optimizer stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from accel.distributed.data_parallel.accumulation import PassesPerStep
from accel.distributed.data_parallel.averaging import send_to_all
from accel.errors import AccelError
from accel.techniques.sharding.sharded_model import sharding_of

if TYPE_CHECKING:
    from torch import nn

    from accel.distributed.data_parallel.bucket_exchange import BucketExchange

_COMPLETE_PASSES = 2  # so many with a gradient for every parameter on every rank, then DDP exchanges them
_MOST_WRAPPERS = 3  # of one model: one whose parts come and go does without


class SynchronisedModel:
    """Calls `inner` so that all ranks begin with rank 0's parameters and buffers, and gradients can be averaged in backward.

    >>> with wrapped_call(model, lambda inner: SynchronisedModel(model, inner, buckets)):
    ...     model(x).sum().backward()

    DDP (Li et al., *PyTorch Distributed*, VLDB 2020) waits for the gradient of every parameter, for ever where one takes no part
    on another rank. So `GradientExchange` averages the gradients of the first passes; once all took part everywhere, `inner` is
    called as the module of a DDP, which does it during the backward pass. After an incomplete pass it is taken off again.
    `meet` is called before all ranks exchange something.
    Where the parameters are spread over the ranks (`fully_shard`), gradients are averaged by that, and only buffers are left.
    """

    def __init__(
        self, model: nn.Module, inner: Callable[..., Any], buckets: BucketExchange,
        meet: Callable[[str], object] = lambda kind: None,
    ) -> None:  # fmt: skip
        self.model, self.inner, self._meet = model, inner, meet
        self.accumulation = PassesPerStep()
        self.is_complete = False  # DDP has averaged the gradients of the backward pass that is running
        self.is_armed = False  # DDP waits for gradients
        self.is_trained = False  # it got gradients in some pass
        self._buckets = buckets
        self.is_inside = self.talks = (
            False  # its call exchanges something by itself, as SyncBatchNorm and FSDP do
        )
        self._complete_passes = self._wrappers = 0
        self._wandered = False  # a training pass may have changed buffers, otherwise on each rank
        self._ddp: Any = None
        self._held: list[dict[str, Any]] = []
        self._seen: tuple[int, ...] = ()
        self.parameters: list[Any] = []
        self.averaged_by_others: set[int] = (
            set()
        )  # tensors that stand for parameters which are spread over ranks, by id
        self._read_parts()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch

        if self.is_inside:  # DDP calls the module; a recursive model calls itself
            return self.inner(*args, **kwargs)
        self.is_inside = True
        try:
            if self._ddp is None or not torch.is_grad_enabled():
                return self.inner(*args, **kwargs)
            self.is_armed = self.is_armed or self._ddp.require_backward_grad_sync
            return self._ddp(*args, **kwargs)
        finally:
            self.is_inside = False

    def prepare(self, *, trains: bool, is_due: bool, may_wrap: bool) -> None:
        """Before a call: layers that were exchanged are sent to all ranks, and so are buffers, once after each training pass."""
        if trains and self.talks:
            self._meet("call")
        if tuple(self._ids()) != self._seen:
            self.take_off()
            self._read_parts()
        trainable = {id(p) for p in self.parameters if p.requires_grad}
        if self._ddp is not None and trainable != self._known_to_ddp:  # frozen, or thawed, since
            self.take_off()
        if trains and may_wrap and self._wandered:  # between forward and backward they are in use
            self._send(self._buffers)
        elif not trains and self._wandered:
            self._send([*self._buffers, *self._statistics])
            self._wandered = False
        self._wandered = self._wandered or trains
        if self._ddp is None and may_wrap and trains and trainable and self._is_ready:
            self._ddp = self._wrapped()
        if self._ddp is not None:
            self._ddp.require_backward_grad_sync = is_due

    def pass_was(self, *, complete: bool) -> None:
        """What `GradientExchange` saw on all ranks in a pass that it averaged itself."""
        self._complete_passes = self._complete_passes + 1 if complete else 0

    def check_graph_may_change(self) -> None:
        """Some parameters took no part in a pass: raises AccelError where it was promised that all always do."""
        if self._buckets.options.static_graph:
            raise AccelError(
                "--static-graph",
                because=f"the training graph has changed: in this step some parameters of {type(self.model).__name__} got no "
                "gradient, and in earlier steps they did",
                do="Leave --static-graph out: then gradients are exchanged after the backward pass once that happens.",
            )

    def was_stepped(self) -> None:
        """An optimizer used its gradients; parts that were called by themselves may have changed buffers."""
        self.accumulation.stepped()
        self._wandered = True

    def take_off(self) -> None:
        """Do without DDP until enough complete passes were seen again."""
        self._ddp, self.is_armed, self.is_complete, self._complete_passes = None, False, False, 0

    @property
    def is_wrapped(self) -> bool:
        """Whether DDP exchanges its gradients."""
        return self._ddp is not None

    @property
    def was_wrapped(self) -> bool:
        """Whether DDP ever exchanged them."""
        return self._wrappers > 0

    @property
    def in_ddp(self) -> set[int]:
        """The parameters that DDP knows, by id."""
        return self._known_to_ddp if self._ddp is not None else set()

    @property
    def _is_ready(self) -> bool:
        return self._complete_passes >= _COMPLETE_PASSES and self._wrappers < _MOST_WRAPPERS

    def _ids(self) -> Iterable[int]:
        return (id(part) for held in self._held for part in held.values())

    def _read_parts(self) -> None:
        """All parameters and buffers, made alike on all ranks; and where to see cheaply that they are still these."""
        from torch.nn.modules.batchnorm import _NormBase

        modules = list(self.model.modules())
        sharding = sharding_of(self.model)
        self.averaged_by_others = sharding.parameter_ids if sharding is not None else set()
        self._held = [module._modules for module in modules]
        if sharding is None:
            self._held += [module._parameters for module in modules]
        self._seen = tuple(self._ids())
        self.parameters = list(self.model.parameters()) if sharding is None else []
        of_norms = [
            b for module in modules if isinstance(module, _NormBase) for b in module.buffers(recurse=False)
        ]
        known = {id(each) for each in of_norms}
        self._statistics = _filled(of_norms)  # which training does not read
        self._buffers = [each for each in _filled(self.model.buffers()) if id(each) not in known]
        self._send([*_filled(self.parameters), *self._buffers, *self._statistics])

    def _send(self, tensors: list[Any]) -> None:
        if tensors:
            self._meet("buffers")
        send_to_all(tensors)

    def _wrapped(self) -> Any:
        self._wrappers += 1
        self._known_to_ddp = {id(p) for p in self.parameters if p.requires_grad}
        return self._buckets.wrapped(self.model, on_complete=self._completed)

    def _completed(self) -> None:
        self.is_complete = True


def _filled(tensors: Iterable[Any]) -> list[Any]:
    """Those that have numbers: a lazy layer gets its own, alike on all ranks, as it is called."""
    from torch.nn.parameter import is_lazy

    return [each for each in tensors if not is_lazy(each) and each.numel()]
