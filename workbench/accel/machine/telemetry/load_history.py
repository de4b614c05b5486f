"""The last minutes of samples as one array of numbers, in a ring: no sample costs more memory than the one it replaces."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pandas


class LoadHistory:
    """Rows of the same columns, the oldest given up first. Written by one thread, read by any.

    >>> history = LoadHistory(("time_s", "cpu_busy"), capacity=1200)
    >>> history.append([0.5, 0.38])
    >>> history["cpu_busy"]
    array([0.38])
    """

    def __init__(self, columns: Sequence[str], *, capacity: int) -> None:
        self.columns = tuple(columns)
        self.capacity = capacity
        self._ring = array("d")
        self._written = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return min(self._written, self.capacity)

    def append(self, row: Sequence[float]) -> None:
        """Add a row, in the place of the oldest when the ring is full."""
        width = len(self.columns)
        if len(row) != width:
            raise ValueError(f"a row has {width} values, not {len(row)}")
        with self._lock:
            if self._written < self.capacity:
                self._ring.extend(row)
            else:
                at = self._written % self.capacity * width
                self._ring[at : at + width] = array("d", row)
            self._written += 1

    def rows(self, last: int | None = None) -> np.ndarray:
        """All rows or the last so many, oldest first: a copy, one column a name of `columns`."""
        import numpy as np

        with self._lock:
            held = np.array(self._ring).reshape(-1, len(self.columns))
            start = self._written % self.capacity if self._written > self.capacity else 0
        ordered = np.roll(held, -start, axis=0)
        return ordered if last is None else ordered[max(0, len(ordered) - last) :]

    @property
    def is_full(self) -> bool:
        """Whether every new row takes the place of the oldest."""
        return self._written >= self.capacity

    @property
    def begins_s(self) -> float:
        """When the oldest row's interval began."""
        with self._lock:
            at = (self._written % self.capacity if self.is_full else 0) * len(self.columns)
            time_s, interval_s = (
                self._ring[at + self.columns.index(name)] for name in ("time_s", "interval_s")
            )
            return time_s - interval_s

    def __getitem__(self, column: str) -> np.ndarray:
        return self.rows()[:, self.columns.index(column)]

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a sample; `time_s` counts as time.monotonic() does."""
        import pandas

        return pandas.DataFrame(self.rows(), columns=list(self.columns))
