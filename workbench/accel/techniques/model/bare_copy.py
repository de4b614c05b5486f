"""A copy of the user's model to try things on, and a call of it that nothing of the user's notices."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def bare_copy(model: torch.nn.Module) -> torch.nn.Module:
    """A copy without the user's hooks: what they collect or print is about the user's own calls.

    >>> bare_copy(model)(images)
    """
    copied = copy.deepcopy(model)
    for module in copied.modules():
        for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            vars(module)[hooks].clear()
    return copied


@contextmanager
def undisturbed(model: torch.nn.Module) -> Iterator[None]:
    """Neither random numbers nor the modes that a call came with have a say, and warnings of what is tried stay away.

    >>> with undisturbed(model):
    ...     bare_copy(model)(images)
    """
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


def tensors_in(output: Any) -> list[Any]:
    """The tensors of a model's output, however it holds them.

    >>> [tensor.shape for tensor in tensors_in({"logits": torch.zeros(4, 10)})]
    [torch.Size([4, 10])]
    """
    import torch
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves(dict(output) if isinstance(output, Mapping) else output)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def detached(value: Any) -> Any:
    """Arguments of a call with copies of their tensors, which know no graph.

    >>> args, kwargs = detached((args, kwargs))
    """
    import torch
    from torch.utils._pytree import tree_map

    return tree_map(lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf, value)
