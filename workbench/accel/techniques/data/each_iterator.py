"""Change each iterator that a DataLoader makes, for good.

The function below is also what `%accel export` writes into a cell: it uses the standard library only. While a plan is on,
`loader_iterators` does the same and takes it back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def change_each_iterator(loader: Any, **changes: Callable[[Any], Any]) -> None:
    """Let a DataLoader call these with each new iterator; a change of the same name takes the place of the former.

    >>> change_each_iterator(loader, draws_each_epoch=draw_each_epoch)

    The loader gets a class of its own. A function stored on the loader would have to hold the loader: a circle, which keeps
    persistent workers alive until the next garbage collection and lets them end late.
    """
    if not hasattr(loader, "iterator_changes"):

        class ChangingIterators(type(loader)):  # type: ignore[misc]
            def _get_iterator(self) -> Any:
                iterator = super()._get_iterator()
                for change in self.iterator_changes.values():
                    change(iterator)
                return iterator

        loader.__class__, loader.iterator_changes = ChangingIterators, {}
    loader.iterator_changes = {**loader.iterator_changes, **changes}
