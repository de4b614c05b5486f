"""Change each iterator that a DataLoader makes, for good.

The functions below are also what `%accel export` writes into a cell: they use the standard library only. While a plan is on,
`loader_iterators` does the same and takes it back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


def change_each_iterator(loader: Any, **changes: Callable[[Any], Any]) -> None:
    """Let a DataLoader call these with each new iterator; a change of the same name takes the place of the former.

    >>> change_each_iterator(loader, draws_each_epoch=draw_each_epoch)

    The loader gets a class of its own. A function stored on the loader would have to hold the loader: a circle, which keeps
    persistent workers alive until the next garbage collection and lets them end late.
    """
    if not hasattr(loader, "iterator_changes"):

        class ChangingIterators(type(loader)):  # type: ignore[misc]
            iterator_changes: ClassVar[dict[str, Callable[[Any], Any]]] = {}  # of one that is made anew

            def __reduce__(self) -> Any:
                return with_changes, (type(self).__base__, vars(self))

            def _get_iterator(self) -> Any:
                iterator = super()._get_iterator()
                for change in self.iterator_changes.values():
                    change(iterator)
                return iterator

        ChangingIterators.__name__ = type(loader).__name__
        loader.__class__ = ChangingIterators
    loader.iterator_changes = {**loader.iterator_changes, **changes}


def with_changes(kind: Any, state: dict[str, Any]) -> Any:
    """A copy of a loader that was changed, of the class that it had before: what pickle and copy make it by."""
    loader = kind.__new__(kind)
    vars(loader).update(state)
    change_each_iterator(loader, **vars(loader).pop("iterator_changes", {}))
    return loader
