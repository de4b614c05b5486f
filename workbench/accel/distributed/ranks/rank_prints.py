"""What ranks print: rank 0's as it comes, the others' at the end of the run, one rank after the other."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable

_KEPT_PIECES = 4_000  # of each rank that is shown at the end


class RankPrints:
    """Collects pieces from any thread; `show` writes them in the thread that watches the run, so that they land under its cell.

    >>> prints = RankPrints(sys.stdout.write, all_output=True)
    >>> prints.take(0, "epoch 1\\n"); prints.show(); prints.end()
    epoch 1
    """

    def __init__(self, write: Callable[[str], object], *, all_output: bool = False) -> None:
        self._write, self._all_output = write, all_output
        self._lock = threading.Lock()
        self._new: deque[str] = deque()
        self._others: defaultdict[int, deque[str]] = defaultdict(lambda: deque(maxlen=_KEPT_PIECES))

    def take(self, rank: int, text: str) -> None:
        """A rank printed this."""
        with self._lock:
            if rank == 0:
                self._new.append(text)
            elif self._all_output:
                self._others[rank].append(text)

    def show(self) -> None:
        """Write what rank 0 printed since the last time."""
        with self._lock:
            text = "".join(self._new)
            self._new.clear()
        if text:
            self._write(text)

    def end(self) -> None:
        """The run is over: what is left of rank 0's, then the other ranks', each under its name."""
        self.show()
        for rank in sorted(self._others):
            text = "".join(self._others[rank])
            self._write(f"── rank {rank} ──\n{text}" + ("" if text.endswith("\n") else "\n"))
        self._others.clear()
