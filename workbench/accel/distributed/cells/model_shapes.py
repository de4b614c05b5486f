"""The shapes of a notebook's models: a state that was trained elsewhere belongs only into models of the same."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from accel.errors import AccelError

Shapes = dict[str, dict[str, list[int]]]


def shapes_of(namespace: Mapping[str, Any], names: Iterable[str]) -> Shapes:
    """Of each model among these names, its parameters and buffers.

    >>> shapes_of({"model": torch.nn.Linear(2, 1)}, ["model"])
    {'model': {'weight': [1, 2], 'bias': [1]}}
    """
    if "torch" not in sys.modules:
        return {}
    from torch.nn import Module
    from torch.nn.parameter import is_lazy

    return {
        name: {
            path: [*tensor.shape]
            for path, tensor in (*model.named_parameters(), *model.named_buffers())
            if not is_lazy(tensor)
        }
        for name in names
        if isinstance(model := namespace.get(name), Module)
    }


def check_shapes(asked: str, trained: Shapes, namespace: Mapping[str, Any]) -> None:
    """Raises AccelError where a model of the notebook is another one than that which was trained."""
    here = shapes_of(namespace, trained)
    for name, theirs in trained.items():
        ours = here.get(name, {})
        if different := next(
            (path for path in {**theirs, **ours} if theirs.get(path) != ours.get(path)), None
        ):
            raise AccelError(
                asked, because=f"{name} is not the model that was trained: its {different} has the shape {ours.get(different)}, "
                f"there it had {theirs.get(different)}",
                do=f"Run the cells that made {name} as it was when the job began.",
            )  # fmt: skip
