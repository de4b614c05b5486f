"""Memory for time: the activations of a model's blocks are computed a second time in backward, and not kept until then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import AccelError, Reason
from accel.techniques.model.model_call import (
    distinct,
    find_wrapper,
    is_compiled_by_user,
    why_not_inside,
    wrapped_call,
)
from accel.techniques.source.user_names import class_name, names_of, nothing_seen

if TYPE_CHECKING:
    import torch

    from accel.machine import Machine
    from accel.workload import Replica, Workload


@dataclass(frozen=True)
class ActivationCheckpointing:
    """Keep only the inputs of a model's blocks until backward, and compute what is inside them a second time.

    What it does
        Each call of a block (a child, with layers of its own, of a Sequential or ModuleList) goes through
        `torch.utils.checkpoint`: its activations are dropped after forward, and computed again from its input when
        backward comes to it. `every=2` does so for every second block. Dropout draws the same numbers again,
        autocast holds as it did, and BatchNorm counts each batch once.
    When it helps
        Where memory is what limits training: a batch that does not fit, or a larger one that would make the device
        busier. Try it together with a larger batch; alone it is no acceleration.
    When it hurts
        Each step computes the forward pass of its blocks twice: on one core of an EPYC a small CNN trained at ×0.86
        of its speed. Memory held within one block's backward stays. Code in a block's forward that does more than
        compute (counts calls, keeps outputs in lists, hooks) runs twice. It excludes compile_model, which decides by
        itself what to keep: it compiles the calls of the blocks as if they were not wrapped.
    In plain PyTorch
        from torch.utils.checkpoint import checkpoint
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
    References
        https://docs.pytorch.org/docs/stable/checkpoint.html
        https://arxiv.org/abs/1604.06174 (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost")
    """

    every: int = 1

    name: ClassVar[str] = "activation_checkpointing"
    layer: ClassVar[Layer] = "model"
    effect: ClassVar[Effect] = "exact"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ("compile_model",)
    saves_memory: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.every < 1:
            raise AccelError(
                f"activation_checkpointing(every={self.every})",
                because="every=1 is every block, every=2 each second one",
                do="Write every=1 or more.",
            )

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No model with blocks, one that is compiled, or one whose blocks cannot be computed twice."""
        replica = workload.objects()
        if unseen := nothing_seen(workload, "models"):
            return unseen
        models = distinct(replica.models)
        reasons = []
        if models and not any(self._blocks(model) for _, model in models):
            reasons.append(
                Reason(
                    "No model has blocks: children, with layers of their own, of a Sequential or ModuleList",
                    "Put the layers that belong together into a Sequential each, or leave this off.",
                )
            )
        for name, model in models:
            blocks = self._blocks(model)
            reasons += why_not_inside(name, model)
            if is_compiled_by_user(model) or any(is_compiled_by_user(block) for _, block in blocks):
                reasons.append(
                    Reason(
                        f"{name} is compiled, and torch.compile decides itself what to compute again",
                        "Leave this off, or take your own torch.compile out.",
                    )
                )
            reasons += [
                Reason(f"{name}.{path} has {why}", "Leave this off for this model.")
                for path, block in blocks
                if (why := _why_not_twice(block))
            ]
        return reasons

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Wrap the call of each block."""
        with ExitStack() as stack:
            for _, model in distinct(replica.models):
                for path, block in self._blocks(model):
                    stack.enter_context(
                        wrapped_call(block, partial(_CheckpointedCall, block=block, path=path))
                    )
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """How many blocks were computed again in backward, as torch itself asked for it."""
        blocks = [block for _, model in distinct(replica.models) for _, block in self._blocks(model)]
        calls = [find_wrapper(block, _CheckpointedCall) for block in blocks]
        again = sum(call is not None and call.recomputed > 0 for call in calls)
        times = sum(call.recomputed for call in calls if call is not None)
        evidence = f"{again} of {len(blocks)} blocks were computed again in backward, {times} times together"
        return Proof(again > 0 and None not in calls, evidence)

    def as_code(self, workload: Workload) -> str:
        """For each class of block one of its own, whose call goes through `checkpoint`."""
        models = workload.objects().models
        parts = ["import torch", "from torch.utils.checkpoint import checkpoint", ""]
        has_norms = any(_norms(block) for model in models.values() for _, block in self._blocks(model))
        parts += _NORMS_CODE if has_norms else []
        context = ", context_fn=lambda: twice(self)" if has_norms else ""
        parts += [
            "class Recomputed:",
            "    is_recomputed = True",
            "",
            "    def __call__(self, *args, **kwargs):",
            "        if not torch.is_grad_enabled():",
            "            return super().__call__(*args, **kwargs)",
            f"        return checkpoint(super().__call__, *args, use_reentrant=False{context}, **kwargs)",
            "",
        ]
        for name in names_of(workload, "models"):
            if name in models:
                parts += _code_for_blocks(name, self._blocks(models[name]))
            else:
                parts.append(
                    f"# The blocks of {name}: block.__class__ = a class of (Recomputed, type(block)), for each."
                )
        return "\n".join(parts) + "\n"

    def _blocks(self, model: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
        return _blocks(model)[:: self.every]


def _blocks(model: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    """The outermost children, with trainable layers of their own, of Sequentials and ModuleLists; each once."""
    from torch import nn

    found: list[tuple[str, nn.Module]] = []
    seen: set[int] = set()
    waiting: list[tuple[str, nn.Module]] = [("", model)]
    while waiting:
        path, module = waiting.pop(0)
        holds_blocks = isinstance(module, (nn.Sequential, nn.ModuleList))
        for name, child in module.named_children():
            child_path = f"{path}.{name}" if path else name
            if id(child) in seen:
                continue
            is_group = (
                isinstance(child, (nn.ModuleList, nn.ModuleDict)) and type(child).forward is nn.Module.forward
            )
            if holds_blocks and not is_group and _has_layers(child):
                seen.add(id(child))
                found.append((child_path, child))
            else:
                waiting.append((child_path, child))
    return found


def _has_layers(module: torch.nn.Module) -> bool:
    return any(True for _ in module.children()) and any(p.requires_grad for p in module.parameters())


def _norms(block: torch.nn.Module) -> list[torch.nn.Module]:
    """The layers that keep running statistics: BatchNorm and InstanceNorm of all kinds."""
    from torch.nn.modules.batchnorm import _NormBase

    return [module for module in block.modules() if isinstance(module, _NormBase)]


def _why_not_twice(block: torch.nn.Module) -> str:
    """What in a block would not come out the same, or cannot run, a second time; empty when nothing is known."""
    from torch.nn.modules.lazy import LazyModuleMixin

    for module in block.modules():
        if isinstance(module, LazyModuleMixin) and module.has_uninitialized_params():
            return "a lazy layer, whose first call decides its shape"
        helpers = (module, *module._forward_pre_hooks.values())
        if any(type(helper).__name__ in ("_SpectralNorm", "SpectralNorm") for helper in helpers):
            return "a spectral norm, which changes with each call"
    return ""


def _versions(tensors: list[torch.Tensor]) -> list[int]:
    return [tensor._version for tensor in tensors]


@dataclass(eq=False)
class _CheckpointedCall:
    inner: Callable[..., Any]
    block: torch.nn.Module
    path: str
    recomputed: int = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch
        from torch.utils._pytree import tree_leaves
        from torch.utils.checkpoint import checkpoint

        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return self.inner(*args, **kwargs)
        norms = {id(buffer) for norm in _norms(self.block) for buffer in norm.buffers()}
        others = [buffer for buffer in self.block.buffers() if id(buffer) not in norms]
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        given = [each for each in given if not each.is_inference()]
        versions, given_versions = _versions(others), _versions(given)
        call = partial(self.inner, **kwargs) if kwargs else self.inner  # `checkpoint` has keywords of its own
        output = checkpoint(call, *args, use_reentrant=False, context_fn=self._contexts)
        if versions != _versions(others):
            raise self._refused("a buffer of its own")
        if given_versions != _versions(given):
            raise self._refused("its input in place")
        return output

    def _refused(self, what: str) -> AccelError:
        return AccelError(
            "activation_checkpointing",
            because=f"{self.path} changes {what} when it is called, so a second call gives another result",
            do="Leave activation_checkpointing off for this model.",
        )

    def _contexts(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), self._second_time()

    @contextmanager
    def _second_time(self) -> Iterator[None]:
        self.recomputed += 1
        with _copied_statistics(self.block):
            yield


@contextmanager
def _copied_statistics(block: torch.nn.Module) -> Iterator[None]:
    """While a block is computed again its BatchNorm layers count into copies, so that each batch counts once.

    Copies, because the originals may be saved for a backward of their own, which forbids writing into them.
    """
    norms = _norms(block)
    before = [dict(norm._buffers) for norm in norms]
    for norm in norms:
        norm._buffers.update(
            {name: buffer.clone() for name, buffer in norm._buffers.items() if buffer is not None}
        )
    try:
        yield
    finally:
        for norm, buffers in zip(norms, before, strict=True):
            norm._buffers.update(buffers)


_NORMS_CODE = [
    "from contextlib import contextmanager, nullcontext",
    "",
    "@contextmanager",
    "def copied_statistics(block):  # BatchNorm counts each batch once: the second time into copies",
    '    norms = [module for module in block.modules() if hasattr(module, "track_running_stats")]',
    "    before = [dict(norm._buffers) for norm in norms]",
    "    for norm in norms:",
    "        copies = {name: None if buffer is None else buffer.clone() for name, buffer in norm._buffers.items()}",
    "        norm._buffers.update(copies)",
    "    try:",
    "        yield",
    "    finally:",
    "        for norm, buffers in zip(norms, before):",
    "            norm._buffers.update(buffers)",
    "",
    "def twice(block):",
    "    return nullcontext(), copied_statistics(block)",
    "",
]


def _code_for_blocks(name: str, blocks: list[tuple[str, torch.nn.Module]]) -> list[str]:
    """A named class for each class of block, so that the model can still be pickled, and the blocks that get it."""
    lines: list[str] = []
    kinds = dict.fromkeys(type(block) for _, block in blocks)
    for number, kind in enumerate(kinds):
        own = class_name(f"recomputed {name} {kind.__name__}", str(number or ""))
        elements = [_element(name, path) for path, block in blocks if type(block) is kind]
        lines += [
            f'if not hasattr({elements[0]}, "is_recomputed"):  # this cell may run again',
            f"    class {own}(Recomputed, type({elements[0]})):  # by a name, for torch.save",
            "        pass",
            "",
            f"    for block in [{', '.join(elements)}]:",
            f"        block.__class__ = {own}  # each stays the object it is, with one more base class",
            "",
        ]
    return lines


def _element(model: str, path: str) -> str:
    """`model` and `features.0.conv` as an expression: `model.features[0].conv`.

    Numbers are positions of a Sequential or ModuleList; a name that is no identifier is asked for by its path.
    """
    written = model
    for part in path.split("."):
        if part.isdecimal():
            written += f"[{part}]"
        elif part.isidentifier():
            written += f".{part}"
        else:
            return f'{model}.get_submodule("{path}")'
    return written
