"""A model's call in eval mode without the graph that a backward would need, and with a clear error where one comes after all.

The functions below are also what `%accel export` writes into a cell: they use torch and the standard library only.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

# Whether every tensor in a model's results can be found; not known before its first one was seen.
can_be_guarded: Any = weakref.WeakKeyDictionary()


def records_for_nothing(model: torch.nn.Module, args: Any, kwargs: Any) -> bool:
    """Whether a call would record a graph that only the weights ask for, in eval mode."""
    return (
        not model.training
        and can_be_guarded.get(model, True)
        and torch.is_grad_enabled()
        and any(parameter.requires_grad for parameter in model.parameters())
        and not any(torch.is_tensor(leaf) and leaf.requires_grad for leaf in tree_leaves((args, kwargs)))
    )


def call_without_graph(
    model: torch.nn.Module, call: Callable[..., Any], args: Any, kwargs: Any, error: Exception
) -> Any:
    """What `call` gives, without a graph where that would be for nothing; a backward through it raises the error."""
    if torch.compiler.is_compiling() or not records_for_nothing(model, args, kwargs):
        return call(*args, **kwargs)
    if model not in can_be_guarded:
        output = call(*args, **kwargs)
        can_be_guarded[model] = is_plain(output)
        return output
    caches = torch.is_autocast_cache_enabled()
    # Weights that autocast casts here would be kept for a training call in the same `with autocast`: without a graph.
    torch.set_autocast_cache_enabled(False)
    try:
        with torch.no_grad():
            output = call(*args, **kwargs)
    finally:
        torch.set_autocast_cache_enabled(caches)
    return tree_map(lambda value: guarded(value, error), output)


def is_plain(output: Any) -> bool:
    """Whether torch's pytree finds every tensor in it: a result of a class of the user's own may hide some."""
    known = (torch.Tensor, bool, int, float, str, bytes, type(None))
    return all(isinstance(leaf, known) for leaf in tree_leaves(output))


def guarded(value: Any, error: Exception) -> Any:
    """The same tensor for every use but a backward, which raises: results still say that they require grad."""
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return value
    return CallWithoutGraph.apply(torch.ones((), device="cpu", requires_grad=True), [value], error)


class CallWithoutGraph(torch.autograd.Function):
    """A node that stands where the graph would be."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, held: list[torch.Tensor], error: Exception) -> torch.Tensor:
        ctx.error = error
        return held[0].data  # a tensor of its own: the model may have handed back its input

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        raise ctx.error
