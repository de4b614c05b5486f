"""Whether a backward goes through the graph that a call of a model has made: autograd itself says so."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_MOST_OUTPUTS = 8


def use_noting() -> Callable[[set[int], int, Any], None]:
    """A function that puts `call` into `used` when a backward comes to what made the result.

    >>> note_use = use_noting()
    >>> note_use(marks.used_calls, begun_ns, model(x))

    A hook on the graph's nodes costs some microseconds; it changes no gradient and is gone with the graph.
    """
    from torch import Tensor
    from torch.utils._pytree import tree_leaves

    def note_use(used: set[int], call: int, result: Any) -> None:
        if _compiles_backward():
            return

        def note(gradients: Any) -> None:
            used.add(call)

        for leaf in (result,) if isinstance(result, Tensor) else tree_leaves(result)[:_MOST_OUTPUTS]:
            if isinstance(leaf, Tensor) and leaf.grad_fn is not None:
                leaf.grad_fn.register_prehook(note)

    return note_use


def _compiles_backward() -> bool:
    """Compiled autograd would make the hook part of its graph, and compile anew for each."""
    compiled = sys.modules.get("torch._dynamo.compiled_autograd")
    return bool(getattr(compiled, "compiled_autograd_enabled", False))
