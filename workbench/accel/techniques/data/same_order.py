"""Let persistent worker processes leave the order of the samples as it is without them.

A fresh iterator draws one number, the workers' seed, from the generator that the shuffle draws from as well. Persistent
workers do not at their second epoch, and from there on the samples would come in another order.

The function below is also what `%accel export` writes into a cell: it uses torch and the standard library only.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch


def draw_each_epoch(iterator: Any) -> None:
    """Let an iterator that serves several epochs draw what a fresh one would draw, at the start of each."""
    if not iterator._persistent_workers:
        return
    # A strong reference would keep worker processes alive until the next garbage collection.
    mine, inner = weakref.ref(iterator), vars(iterator).get("_reset")

    def reset(loader: Any, first_iter: bool = False) -> None:
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        owner: Any = mine()
        if inner is None:
            type(owner)._reset(owner, loader, first_iter)
        else:
            inner(loader, first_iter)

    iterator._reset = reset
