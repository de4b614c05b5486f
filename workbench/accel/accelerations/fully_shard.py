"""A model that does not fit: each rank keeps a part of every parameter, and puts a block together when it computes it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import AccelError, Reason
from accel.techniques.model.model_call import distinct, is_compiled_by_user
from accel.techniques.model.repeated_blocks import repeated_blocks
from accel.techniques.sharding.sharded_model import ShardedModel, sharding_of
from accel.techniques.sharding.whole_numbers import whole_numbers
from accel.techniques.source.user_names import names_of, nothing_seen

if TYPE_CHECKING:
    import torch

    from accel.machine import Machine
    from accel.workload import Replica, Workload

_WHOLE_WEIGHTS = (
    "LBFGS",
    "Muon",
    "Adafactor",
    "SparseAdam",
    "Rprop",
)  # an update of one number needs others of the weight, or an operation that torch has for whole ones only
_WRAPPERS = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule")


@dataclass(frozen=True)
class FullyShard:
    """Spread parameters, gradients and optimizer state over the ranks: each holds one part of n.

    What it does
        `torch.distributed.fsdp.fully_shard` (FSDP2), on the model of your cell in every rank: before a block computes,
        its parameters are put together from all ranks, and let go afterwards; gradients are averaged in pieces, each
        on the rank that keeps it. Optimizers get the pieces, and their state is cut likewise. A block is one that the
        model repeats (`each_block=False`: the whole model at once). At the end the whole weights and states are in
        your own objects again. `param_dtype="bf16"` computes and sends in bfloat16, and keeps float32.
    When it helps
        Where model, gradients and optimizer state together are more than one device holds: they take 1/n of it in each
        of n ranks, plus one block at a time. It works on ranks only: `%%accel ddp -n 2 --plan fully_shard`.
    When it hurts
        Where the model fits: parameters travel twice in each step (`reshard_after_forward=False`: once, and a block stays
        whole until its backward), and plain data-parallel training sends gradients only. A list of parameters made
        before the model's first call is refused when it is used. `state_dict()` in the cell gives pieces: a copy kept in a
        variable on every rank comes home whole, a file is written in the next cell. `.item()` or `float()` of a norm
        or sum of pieces is that of the whole tensor, so all ranks have to read it at the same place. Outside its call
        the model is pieces: an average of its weights (AveragedModel) or a penalty over `model.parameters()` in the
        loss fails, and so does `create_graph=True`. Every rank has to compute the same blocks: where one is skipped by
        chance (LayerDrop), the others wait for it until the timeout. float16, sparse gradients, and optimizers that
        need a whole weight at once (LBFGS, Muon, Adafactor, Rprop) are refused.
    In plain PyTorch
        from torch.distributed.fsdp import fully_shard
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)          # then build the optimizer; every rank runs this
    References
        https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
        https://arxiv.org/abs/1910.02054 (Rajbhandari et al. 2020, "ZeRO: Memory Optimizations")
        https://arxiv.org/abs/2304.11277 (Zhao et al. 2023, "PyTorch FSDP")
    """

    each_block: bool = True
    reshard_after_forward: bool = True
    param_dtype: Literal["bf16"] | None = None

    name: ClassVar[str] = "fully_shard"
    layer: ClassVar[Layer] = "distributed"
    effect: ClassVar[Effect] = "close"
    needs_own_process: ClassVar[bool] = False
    needs_ranks: ClassVar[bool] = True
    conflicts: ClassVar[tuple[str, ...]] = ("compile_model", "compile_optimizer", "channels_last", "prune")
    changes: ClassVar[tuple[str, ...]] = ("models", "optimizers")

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """A torch without FSDP2, or models and optimizers whose parameters cannot be cut."""
        if unseen := nothing_seen(workload, "models"):
            return unseen
        replica = workload.objects()
        reasons = [*_why_not_here(), *_why_not_shared(distinct(replica.models))]
        for name, model in distinct(replica.models):
            reasons += _why_not_cut(name, model)
        for name, optimizer in distinct(replica.optimizers):
            reasons += _why_not_stepped(name, optimizer)
        return reasons

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Shard each model in place; leaving gathers it, except after an error, where the other ranks may not come."""
        with ExitStack() as taken_off:
            taken_off.enter_context(whole_numbers())
            for name, model in distinct(replica.models):
                if any(True for _ in model.parameters()):
                    sharding = self._shard(name, model)
                    taken_off.callback(_take_off, sharding)
            for name, optimizer in distinct(replica.optimizers):
                _refuse(_why_not_stepped(name, optimizer))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """How many bytes this rank keeps of the parameters, and that they were put together to compute."""
        import torch.distributed as dist

        found = [sharding_of(model) for _, model in distinct(replica.models)]
        shardings = [each for each in found if each is not None]
        if not shardings or len(shardings) < len(found):
            return Proof(False, "a model's parameters are whole in this rank")
        own, whole = sum(each.own_bytes for each in shardings), sum(each.whole_bytes for each in shardings)
        gathers, ranks = sum(each.gathers for each in shardings), dist.get_world_size()
        evidence = (
            f"this rank keeps {own} of {whole} bytes of the parameters, one of {ranks} ranks; "
            f"blocks computed with parameters put together {gathers} times"
        )
        return Proof(own < whole and gathers > 0, evidence)

    def as_code(self, workload: Workload) -> str:
        """To run in every rank, after the process group is there; optimizers go on with the pieces."""
        lines = ["from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard", "import torch", ""]
        options = outer = "" if self.reshard_after_forward else ", reshard_after_forward=False"
        if self.param_dtype:
            lower = "param_dtype=torch.bfloat16, reduce_dtype=torch.float32"
            options += f", mp_policy=MixedPrecisionPolicy({lower})"
            outer += f", mp_policy=MixedPrecisionPolicy({lower}, output_dtype=torch.float32)"
        models, optimizers = workload.objects().models, names_of(workload, "optimizers")
        for name in names_of(workload, "models"):
            lines.append(f"before = [*{name}.parameters()]")
            blocks = self._blocks(models[name]) if name in models else []
            lines += [f'fully_shard({name}.get_submodule("{path}"){options})' for path in blocks]
            lines += [
                f"fully_shard({name}{outer})",
                f"pieces = {{id(old): new for old, new in zip(before, {name}.parameters())}}",
            ]
            for optimizer in optimizers:
                lines += [
                    f"for group in {optimizer}.param_groups:  # before its first step: it has no state yet",
                    '    group["params"][:] = [pieces.get(id(p), p) for p in group["params"]]',
                ]
        return "\n".join(lines) + "\n"

    def _blocks(self, model: torch.nn.Module) -> list[str]:
        """Those that are cut by themselves: parameters that several parts share belong to the model as a whole."""
        if not self.each_block:
            return []
        held = Counter(id(p) for module in model.modules() for p in module._parameters.values())
        return [
            path for path in repeated_blocks(model)
            if not _is_shared(model.get_submodule(path), held)
        ]  # fmt: skip

    def _shard(self, name: str, model: torch.nn.Module) -> ShardedModel:
        import torch
        import torch.distributed as dist

        if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
            raise AccelError(
                "fully_shard", because="there are no other ranks to share the parameters with",
                do="Run the cell with %%accel ddp -n 2 --plan fully_shard.",
            )  # fmt: skip
        _refuse([*_why_not_here(), *_why_not_cut(name, model)])
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        first = next(model.parameters())
        lower = torch.bfloat16 if self.param_dtype else None
        mesh = init_device_mesh(first.device.type, (dist.get_world_size(),))
        keep = (
            None if self.reshard_after_forward else False
        )  # None: all but the root, which backward needs first
        blocks = [model.get_submodule(path) for path in self._blocks(model)]

        def shard(part: torch.nn.Module) -> None:
            policy = MixedPrecisionPolicy(
                param_dtype=lower, reduce_dtype=first.dtype, output_dtype=first.dtype if lower and part is model else None
            )  # fmt: skip
            fully_shard(part, mesh=mesh, mp_policy=policy, reshard_after_forward=keep)

        return ShardedModel(model, blocks, shard)


def _is_shared(block: torch.nn.Module, held: Counter[int]) -> bool:
    """Whether the model has a parameter of this block outside of it, too."""
    own = Counter(id(p) for module in block.modules() for p in module._parameters.values() if p is not None)
    return any(held[key] > count for key, count in own.items())


def _take_off(sharding: ShardedModel) -> None:
    failed = isinstance(sys.exc_info()[1], (Exception, KeyboardInterrupt, SystemExit, GeneratorExit))
    sharding.take_off(gather=not failed)


def _refuse(reasons: list[Reason]) -> None:
    if reasons:
        raise AccelError("fully_shard", because=reasons[0].because, do=reasons[0].do)


def _why_not_here() -> list[Reason]:
    import torch
    import torch.distributed as dist

    if dist.is_available():
        import torch.distributed.fsdp

        if hasattr(torch.distributed.fsdp, "fully_shard"):
            return []
    return [Reason(f"torch {torch.__version__} has no fully_shard", "Install torch 2.8 or newer.")]


def _why_not_shared(models: list[tuple[str, torch.nn.Module]]) -> list[Reason]:
    owners: dict[int, str] = {}
    for name, model in models:
        for p in model.parameters():
            if owners.setdefault(id(p), name) != name:
                return [
                    Reason(
                        f"{owners[id(p)]} and {name} share parameters, which can be cut for one of them only",
                        "Leave this off.",
                    )
                ]
    return []


def _why_not_cut(name: str, model: torch.nn.Module) -> list[Reason]:
    """Why the parameters of a model cannot be spread; empty when nothing is known."""
    from torch.nn.parameter import UninitializedParameter

    parameters = list(model.parameters())
    if any(hasattr(p, "full_tensor") for p in parameters):
        return [
            Reason(
                f"{name} has parameters that are spread already, as those of another model that was called before",
                "Call the whole model first, not a part of it; or leave this off.",
            )
        ]
    if wrapped := [
        kind.__name__ for m in model.modules() for kind in type(m).__mro__ if kind.__name__ in _WRAPPERS
    ]:
        return [Reason(f"{name} is in {wrapped[0]} already", "Take that out, or leave this off.")]
    if is_compiled_by_user(model):
        return [
            Reason(
                f"{name} is compiled, with parameters that are whole",
                "Take torch.compile out, or leave this off.",
            )
        ]
    if any(isinstance(p, UninitializedParameter) for p in parameters):
        return [
            Reason(f"{name} has a lazy layer, whose first call decides its shape", "Call it once before.")
        ]
    return _why_no_pieces(name, model)


def _why_no_pieces(name: str, model: torch.nn.Module) -> list[Reason]:
    """Why single parameters cannot be cut, or not together with the others."""
    from torch import nn

    parameters = list(model.parameters())
    kinds = {p.dtype for p in parameters}
    if len(kinds) > 1 or not all(kind.is_floating_point for kind in kinds):
        return [
            Reason(
                f"{name} has parameters of {' and '.join(sorted(map(str, kinds)))}, and they travel together",
                "Give all of them one floating-point type.",
            )
        ]
    if transposed := [key for key, p in model.named_parameters() if not p.is_contiguous()]:
        return [
            Reason(
                f"{name}.{transposed[0]} lies in memory in another order, as a transposed tensor does, and cannot be cut",
                "Build it from tensor.contiguous(), or leave this off.",
            )
        ]
    if any(isinstance(m, (nn.Embedding, nn.EmbeddingBag)) and m.sparse for m in model.modules()):
        return [
            Reason(
                f"{name} gets sparse gradients, which cannot be cut",
                "Build the embedding without sparse=True, or leave this off.",
            )
        ]
    if any(p.dim() == 0 for p in parameters):
        return [
            Reason(
                f"{name} has a parameter that is one number, which cannot be cut", "Give it the shape (1,)."
            )
        ]
    if any(_has_hooks(p) for p in parameters):
        return [
            Reason(
                f"{name} has hooks on parameters, which would stay behind with the whole ones",
                "Remove the hooks, or leave this off.",
            )
        ]
    return []


def _has_hooks(p: Any) -> bool:
    return bool(p._backward_hooks) or bool(getattr(p, "_post_accumulate_grad_hooks", None))


def _why_not_stepped(name: str, optimizer: torch.optim.Optimizer) -> list[Reason]:
    kinds = [kind.__name__ for kind in type(optimizer).__mro__ if kind.__name__ in _WHOLE_WEIGHTS]
    if not kinds:
        return []
    return [
        Reason(
            f"{name} is {kinds[0]}, whose step needs a whole weight at once",
            "Use AdamW or SGD, or leave this off.",
        )
    ]
