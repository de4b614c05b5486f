"""The parameters that a loss was computed with, whoever holds them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from accel.distributed.data_parallel.averaging import equal_on_all_ranks


def parameters_of_graph(
    outputs: Sequence[Any], known: Container[int], before: Callable[[], object] = lambda: None
) -> list[Any]:
    """Leaf tensors of the autograd graph of `outputs` that all ranks train, in graph order, without those whose id is `known`.

    >>> parameters_of_graph([F.linear(x, model.weight).sum()], known=())[0] is model.weight
    True

    All ranks must call this at the same point. Every nn.Parameter counts as trained. Any other leaf counts as trained if its
    values are equal on all ranks; if they differ, it is input data that requires a gradient. If there are such other leaves,
    `before` is called before the ranks compare them.
    """
    from torch import nn

    leaves = [each for each in _leaves(outputs) if id(each) not in known]
    plain = [each for each in leaves if not isinstance(each, nn.Parameter)]
    if plain:
        before()
    trained = {id(each) for each in equal_on_all_ranks(plain)}
    return [each for each in leaves if isinstance(each, nn.Parameter) or id(each) in trained]


def _leaves(outputs: Sequence[Any]) -> list[Any]:
    found: dict[int, Any] = {}
    waiting = [each.grad_fn for each in outputs if getattr(each, "grad_fn", None) is not None]
    seen: set[Any] = set(waiting)
    while waiting:
        node = waiting.pop()
        variable = getattr(node, "variable", None)
        if variable is not None:
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
