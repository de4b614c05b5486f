"""The transforms of a data set: where they are, and the same data set with others.

`with_transform` leaves the user's data set as it is: it makes a shallow copy, which shares what it holds. The functions below
are also what `%accel export` writes into a cell: they use the standard library only.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any


def path_to_transform(dataset: Any) -> list[str] | None:
    """Attributes that lead to the part of a data set that has a transform: ["dataset"] for a Subset of one, None for none."""
    path: list[str] = []
    held = getattr(dataset, "__dict__", {})
    while not callable(held.get("transform")):
        if "dataset" not in held or len(path) > 6:
            return None
        path.append("dataset")
        held = getattr(held["dataset"], "__dict__", {})
    return path


def steps_of(dataset: Any) -> list[Any]:
    """The transforms of a data set one by one; those of a Compose, else the one there is, else none."""
    path = path_to_transform(dataset)
    if path is None:
        return []
    for name in path:
        dataset = vars(dataset)[name]
    transform = vars(dataset)["transform"]
    return list(transform.transforms) if type(transform).__name__ == "Compose" else [transform]


def with_transform(dataset: Any, transform: Callable[[Any], Any]) -> Any:
    """A shallow copy of a data set, with another transform in the place of its own."""
    copied = copy.copy(dataset)
    state = vars(copied)
    if path_to_transform(dataset):
        state["dataset"] = with_transform(state["dataset"], transform)
        return copied
    state["transform"] = transform
    if hasattr(
        state.get("transforms"), "transform"
    ):  # torchvision's pair of transforms, which some data sets use
        state["transforms"] = copy.copy(state["transforms"])
        state["transforms"].transform = transform
    return copied
