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


def is_compiled(node: Any) -> bool:
    """Whether the node stands for a whole graph that torch.compile made."""
    return "CompiledFunction" in node.name()


class FirstGraphs:
    """The nodes behind the first three results that have a graph: a look walks all of it, and is needed once.

    >>> graphs = FirstGraphs()
    >>> any(map(is_compiled, graphs.nodes_behind(output)))
    """

    def __init__(self) -> None:
        self._left = 3

    def nodes_behind(self, output: Any) -> Iterator[Any]:
        """Those of this result; none when three were looked at, or for a result without gradient."""
        if not self._left:
            return
        for position, node in enumerate(nodes_behind(output)):
            self._left -= position == 0
            yield node
