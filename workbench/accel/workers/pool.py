"""Keep a few workers warm: started and imported before they are needed, so that a trial begins at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from accel.processes.start import Start
from accel.workers.worker import Worker


class WorkerPool:
    """Spare workers for measuring. Each serves one relaunch and is ended; spares are refilled between trials only.

    >>> pool = WorkerPool(spares=2); pool.refill(); workers = pool.take([Start()] * 3); pool.close()
    """

    def __init__(self, spares: int = 2) -> None:
        self._spares = spares
        self._warm: list[Worker] = []
        self._lock = threading.Lock()
        self._closed = False

    def refill(self) -> None:
        """Start workers up to the number of spares; returns at once, they import in the background."""
        with self._lock:
            dead = [worker for worker in self._warm if not worker.is_alive]
            self._warm = [worker for worker in self._warm if worker not in dead]
            while len(self._warm) < self._spares and not self._closed:
                self._warm.append(Worker(in_background=True))
        for worker in dead:
            worker.close()

    def take(self, starts: Sequence[Start]) -> list[Worker]:
        """A worker for each start, in this order, which may still be importing; the caller waits for them and ends them.

        A ready spare serves where the start is the usual one.
        """
        usual = sum(not start for start in starts)
        with self._lock:
            usable = [
                worker for worker in self._warm if worker.is_ready and worker.variables == dict(os.environ)
            ]
            stale = [
                worker for worker in self._warm if worker not in usable
            ]  # %env was used since it started, or it still imports, when no other process wants the CPUs: a new one is faster
            spares, self._warm = usable[:usual], usable[usual:]
        for worker in stale:
            worker.close()
        taken: list[Worker] = []
        try:
            for start in starts:
                taken.append(spares.pop() if spares and not start else Worker(start))
        except BaseException:  # the caller gets none of them
            for worker in [*taken, *spares]:
                worker.close()
            raise
        return taken

    def start_s(self, count: int) -> float:
        """About how long it takes until so many are ready."""
        with self._lock:
            warm = sum(worker.is_ready for worker in self._warm)
        return Worker.usual_start_s if count > warm else 0.0

    def close(self) -> None:
        """End the spares."""
        with self._lock:
            self._closed = True
            warm, self._warm = self._warm, []
        for worker in warm:
            worker.close()
