"""The layers of the stack that accelerations change, in the order and the words in which lists show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from accel.accelerations.acceleration import Layer

Row = TypeVar("Row")

LAYERS: dict[Layer, str] = {
    "model": "Model",
    "compile": "Compilation",
    "numerics": "Number formats",
    "settings": "Settings of torch",
    "data": "Data pipeline",
    "optimizer": "Optimizer",
    "batch": "Batch",
    "hygiene": "Unneeded work",
    "threads": "Threads",
    "environment": "Environment",
    "distributed": "Several processes",
}


def by_layer(rows: Iterable[Row], layer_of: Callable[[Row], Layer]) -> list[tuple[str, list[Row]]]:
    """The rows of each layer together, under its title; layers without rows are left out.

    >>> [title for title, _ in by_layer(CATALOGUE, lambda entry: entry.layer)]
    ['Model', 'Compilation', 'Number formats', 'Data pipeline', 'Optimizer', 'Threads', 'Environment']
    """
    rows = list(rows)
    groups = ((title, [row for row in rows if layer_of(row) == layer]) for layer, title in LAYERS.items())
    return [(title, group) for title, group in groups if group]
