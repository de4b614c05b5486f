"""The parameters that a loss was computed with, whoever holds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def parameters_of_graph(outputs: Sequence[Any]) -> list[Any]:
    """Every nn.Parameter that the autograd graph of these tensors leads to, in the graph's order.

    >>> parameters_of_graph([F.linear(x, model.weight).sum()]) == [model.weight]
    True

    Other leaves may be data, as where a gradient by the inputs is wanted: those differ from rank to rank.
    """
    from torch import nn

    found: dict[int, Any] = {}
    waiting = [each.grad_fn for each in outputs if getattr(each, "grad_fn", None) is not None]
    seen: set[Any] = set(waiting)
    while waiting:
        node = waiting.pop()
        variable = getattr(node, "variable", None)
        if isinstance(variable, nn.Parameter):
            found[id(variable)] = variable
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return list(found.values())


def named_leaves(namespace: Mapping[str, Any]) -> list[Any]:
    """Tensors of the namespace that are trained without a module: leaves that want a gradient, also in a list or a dict.

    >>> named_leaves({"w": torch.zeros(3, requires_grad=True)})
    [tensor([0., 0., 0.], requires_grad=True)]
    """
    import torch

    def parts(value: Any) -> Iterable[Any]:
        if isinstance(value, (list, tuple)) and len(value) <= 1000:
            return value
        return value.values() if isinstance(value, dict) and len(value) <= 1000 else (value,)

    candidates = (part for value in list(namespace.values()) for part in parts(value))
    tensors = (part for part in candidates if isinstance(part, torch.Tensor))
    return list({id(t): t for t in tensors if t.is_leaf and t.requires_grad}.values())
