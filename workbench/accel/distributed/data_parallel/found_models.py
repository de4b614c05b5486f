"""The models that a rank found in use, until others take their place: built anew by another run, or found to be parts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any


class FoundModels:
    """Each with the run of the cell that it was found in, and what is undone when it is let go.

    >>> found = FoundModels(on_earlier=exchange.remove, on_part=exchange.remove)
    >>> found.make_room_for(model); taken = found.add(model)
    """

    def __init__(self, *, on_earlier: Callable[[Any], object], on_part: Callable[[Any], object]) -> None:
        self.run = 0
        self._on_earlier, self._on_part = on_earlier, on_part
        self._held: list[tuple[int, Any, ExitStack]] = []

    def add(self, model: Any) -> ExitStack:
        """What undoes all that is done with it goes onto this stack."""
        taken = ExitStack()
        self._held.append((self.run, model, taken))
        return taken

    def make_room_for(self, model: Any) -> None:
        """Let go of one of its class that an earlier run built, else each step would look through all; and of its parts.

        A part that was called by itself before the whole was, as to see the shape of what it gives, is the whole's from now on.
        """
        kind, inside = type(model), {id(p) for p in model.parameters()}
        old = next((each for each in self._held if each[0] < self.run and type(each[1]) is kind), None)
        if old is not None:
            self._let_go(old, self._on_earlier)
        for part in [each for each in self._held if set() < {id(p) for p in each[1].parameters()} < inside]:
            self._let_go(part, self._on_part)

    def _let_go(self, held: tuple[int, Any, ExitStack], hear: Callable[[Any], object]) -> None:
        self._held.remove(held)
        held[2].close()
        hear(held[1])

    def close(self) -> None:
        """Undo all, what was added last first."""
        with ExitStack() as all_of_them:
            for _, _, taken in self._held:
                all_of_them.push(taken)
        self._held.clear()
