"""Whose steps are the training's, decided while it goes on: in a trial and on ranks, which cannot wait for the cell's end."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from accel.hooks.attribute_patches import AttributePatches


class LeadingOptimizer:
    """The first that steps, until one that was built later does: the next fold's. Entered round the cell's run.

    >>> with LeadingOptimizer() as leading:
    ...     leading.leads(optimizer)      # after each step of an optimizer
    True

    Where the former one steps again, the later one was a probe's, and its steps were none of the training's. From then on one
    that is built later leads only when it has taken more steps than a probe does.
    """

    def __init__(self) -> None:
        self._patches = AttributePatches()
        self._built: dict[int, int] = {}  # id → steps of the training when it was built
        self.begins()

    def begins(self) -> None:
        """The cell starts (again): an optimizer that it builds anew is the first one then."""
        self._leads: list[
            tuple[weakref.ref[Any], int]
        ] = []  # with the steps before it led; the last one leads
        self._steps = self._most_of_a_probe = 0
        self._tries: dict[int, int] = {}  # id → steps of one that may be a probe's
        self._built.clear()

    def __enter__(self) -> LeadingOptimizer:
        from torch.optim import Optimizer

        original: Any = Optimizer.__init__

        @functools.wraps(original)
        def construct(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            self._built[id(optimizer)] = self._steps
            self._tries.pop(id(optimizer), None)
            original(optimizer, *args, **kwargs)

        self._patches.add(Optimizer, "__init__", construct)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._patches.take_back()

    def leads(self, optimizer: Any) -> bool:
        """Whether the step that this optimizer took now is one of the training."""
        place = self._place(optimizer)
        if place is not None:
            self._take_back(place)
        elif not self._is_next(optimizer):
            return False
        else:
            self._leads.append((weakref.ref(optimizer), self._steps))
            self._tries.clear()
        self._steps += 1
        return True

    def may_lead(self, optimizer: Any) -> bool:
        """Whether a step that it is about to take may be one of the training: it leads, has led, or is the next."""
        if not self._leads or self._leads[-1][0]() is None or self._place(optimizer) is not None:
            return True
        return self._built.get(id(optimizer), -1) > self._leads[-1][1]

    def _place(self, optimizer: Any) -> int | None:
        return next((place for place, (each, _) in enumerate(self._leads) if each() is optimizer), None)

    def _take_back(self, place: int) -> None:
        if len(self._leads) > place + 1:
            self._note_probe(self._steps - self._leads[place + 1][1])
            del self._leads[place + 1 :]
        for steps in self._tries.values():
            self._note_probe(steps)
        self._tries.clear()

    def _note_probe(self, steps: int) -> None:
        self._most_of_a_probe = max(self._most_of_a_probe, steps)

    def _is_next(self, optimizer: Any) -> bool:
        """Whether it takes the lead: from nobody, from one whose life is over, or as the one that was built later."""
        if not self._leads or self._leads[-1][0]() is None:
            return True
        if not self.may_lead(optimizer):
            return False
        tried = self._tries[id(optimizer)] = self._tries.get(id(optimizer), 0) + 1
        return tried > self._most_of_a_probe
