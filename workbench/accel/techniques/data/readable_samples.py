"""Why the samples of a DataLoader cannot be read one by one, as keeping or transforming them needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accel.techniques.data.loader_iterators import keeps_own_workers

if TYPE_CHECKING:
    from torch.utils.data import DataLoader


def why_not_read(name: str, loader: DataLoader[Any]) -> list[str]:
    """The reason against a loader whose samples have no index, or whose worker processes have their data already.

    >>> why_not_read("loader", loader)
    []
    """
    from torch.utils.data import IterableDataset

    dataset: Any = loader.dataset
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        return [f"The data set of {name} has no samples with an index and a number of them. "
                "Use a data set with __getitem__ and __len__, or leave this off."]  # fmt: skip
    if not len(dataset):
        return [f"The data set of {name} is empty. Leave this off."]
    if keeps_own_workers(loader):
        return [f"{name} keeps worker processes of its own (persistent_workers=True), which have their data already. "
                "Build it without, or leave this off."]  # fmt: skip
    return []


def unreadable(name: str, error: Exception) -> str:
    """The reason where the user's own data set or transforms raise."""
    return (f"A sample of {name} could not be read ({type(error).__name__}: {error}). "
            f"Look at what {name}.dataset[0] gives, or leave this off.")  # fmt: skip
