"""What reading a few samples of a data set told, remembered while the data set lives and stays as it is.

Reading can be slow (decoding, a network), and the same is asked when a plan is listed, tried, kept and exported.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from accel.techniques.data.dataset_transforms import steps_of

Answer = TypeVar("Answer")

_notes: dict[int, tuple[weakref.ref[Any], dict[Hashable, Any]]] = {}


def notes_on(dataset: Any) -> dict[Hashable, Any]:
    """A dictionary that lives as long as the data set; nothing in it may refer to the data set.

    A list, which says nothing of its end, gets a new one each time.
    """
    key = id(dataset)
    known = _notes.get(key)
    if known is not None and known[0]() is dataset:
        return known[1]
    try:
        reference = weakref.ref(dataset, lambda _: _notes.pop(key, None))
    except TypeError:
        return {}
    _notes[key] = reference, {}
    return _notes[key][1]


def remembered(dataset: Any, question: str, answer: Callable[[], Answer]) -> Answer:
    """The answer of last time, or a new one when an attribute of the data set or a transform is another one since.

    >>> remembered(dataset, "shapes of its samples", lambda: shapes_of(dataset))
    """
    notes = notes_on(dataset)
    if question not in notes or notes[question][0] != _state_of(dataset):
        given = answer()
        notes[question] = _state_of(dataset), given  # asked again: some count their reads
    found: Answer = notes[question][1]
    return found


def of_transforms(dataset: Any) -> tuple[Any, ...]:
    """Equal while the data set has the same transforms with the same settings."""
    return tuple((id(step), repr(step)) for step in steps_of(dataset))


def _state_of(dataset: Any) -> tuple[Any, ...]:
    levels: list[Any] = [len(dataset), of_transforms(dataset)]
    held = dataset
    while (attributes := getattr(held, "__dict__", None)) is not None:
        levels += [(name, id(value)) for name, value in attributes.items()]
        held = attributes.get("dataset")
    return tuple(levels)
