"""Change the iterators that a DataLoader makes, in place, and put it back.

`DataLoader.__iter__` asks `loader._get_iterator()` for a new one: an attribute of that name on the loader itself comes before
the method of its class. Several changes lie in each other, the last one outermost; a copied or pickled loader takes them along.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

_SLOT = "_get_iterator"


class IteratorMaker(ABC):
    """Stands for a loader's `_get_iterator`; a subclass says in `change` what is different about its iterators.

    `inner` is what stood there before, None for the method of the loader's class.
    """

    def __init__(self, loader: DataLoader[Any], inner: Callable[[], Any] | None = None) -> None:
        self._loader = weakref.ref(loader)
        self.inner = inner

    def __call__(self) -> Any:
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        loader = self._loader()
        assert loader is not None, "a loader calls this itself"
        iterator = type(loader)._get_iterator(loader) if self.inner is None else self.inner()
        if isinstance(iterator, _BaseDataLoaderIter):  # what a subclass makes instead is left as it is
            self.change(iterator)
        return iterator

    @abstractmethod
    def change(self, iterator: Any) -> None:
        """Change an iterator that was just made, by attributes of its own."""

    def knobs(self) -> tuple[Any, ...]:
        """What the class takes after loader and inner, for a copied loader."""
        return ()

    def __reduce__(self) -> Any:
        return type(self), (self._loader(), self.inner, *self.knobs())


Maker = TypeVar("Maker", bound=IteratorMaker)


@contextmanager
def changed_iterators(
    loader: DataLoader[Any], make: Callable[[DataLoader[Any], Callable[[], Any] | None], Maker]
) -> Iterator[Maker]:
    """While entered, new iterators of the loader come from `make(loader, what made them before)`.

    >>> with changed_iterators(loader, PinnedBatches) as maker:
    ...     train()

    An epoch that somebody is reading goes on as it began.
    """
    state = vars(loader)
    before = state.get(_SLOT)
    maker = state[_SLOT] = make(loader, before)
    try:
        yield maker
    finally:
        if before is None:
            state.pop(_SLOT, None)
        else:
            state[_SLOT] = before


@contextmanager
def changed_attributes(loader: DataLoader[Any], **ours: Any) -> Iterator[None]:
    """While entered, the loader has these attributes, also those that a DataLoader refuses to have set once it is built."""
    state = vars(loader)
    before = {name: state[name] for name in ours if name in state}
    state.update(ours)
    try:
        yield
    finally:
        for name in ours.keys() - before.keys():
            state.pop(name, None)
        state.update(before)


def find_maker(loader: DataLoader[Any], kind: type[Maker]) -> Maker | None:
    """The outermost maker of this kind that is in force on the loader; None when there is none."""
    maker = vars(loader).get(_SLOT)
    while maker is not None and not isinstance(maker, kind):
        maker = getattr(maker, "inner", None)
    return maker


def keeps_own_workers(loader: DataLoader[Any]) -> bool:
    """Whether the user keeps worker processes from epoch to epoch; an iterator of ours would change what they draw."""
    if _SLOT in vars(loader) or "draws_each_epoch" in getattr(loader, "iterator_changes", {}):
        return False  # ours, or what we exported: a new iterator draws what the user's would draw
    return bool(loader.persistent_workers and loader.num_workers)
