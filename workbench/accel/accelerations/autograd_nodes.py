"""The operations that a result came from, as autograd remembers them: evidence of what really ran."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def nodes_behind(output: Any) -> Iterator[Any]:
    """Every autograd node behind the tensors in `output`, each once; none for a result without gradient.

    >>> [node.name() for node in nodes_behind(model(x))]
    ['AddmmBackward0', 'AccumulateGrad', …]
    """
    import torch
    from torch.utils._pytree import tree_leaves

    tensors = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    waiting = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        yield node
        following = {parent for parent, _ in node.next_functions if parent is not None} - seen
        seen |= following
        waiting += following
