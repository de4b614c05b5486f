"""Copies out of pinned memory that do not wait for their end.

The function below is also what `%accel export` writes into a cell: it uses torch and the standard library only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch


def without_waiting(
    copy: Callable[..., Any], on_copy: Callable[[], None] = lambda: None
) -> Callable[..., Any]:
    """`Tensor.to` or `Tensor.cuda`, which return at once where a copy goes from pinned memory to a GPU."""

    @functools.wraps(copy)
    def copy_tensor(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return copy(tensor, *args, **kwargs)
        target = kwargs.get("device", args[0] if args else None)
        if target is None and copy.__name__ == "cuda":
            target = "cuda"
        if isinstance(target, torch.Tensor):
            target = target.device
        to_gpu = type(target) is int or (
            isinstance(target, (str, torch.device)) and torch.device(target).type == "cuda"
        )
        says_itself = "non_blocking" in kwargs or any(isinstance(given, bool) for given in args)
        if to_gpu and not says_itself and tensor.device.type == "cpu" and tensor.is_pinned():
            on_copy()
            kwargs["non_blocking"] = True
        return copy(tensor, *args, **kwargs)

    marked: Any = copy_tensor
    marked.is_without_waiting = True
    return copy_tensor
