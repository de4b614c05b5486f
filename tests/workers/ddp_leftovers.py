"""What a run on ranks could leave behind, counted: processes, connections, shared memory, files, descriptors, threads."""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
import threading
import time
from pathlib import Path

import psutil

from accel.distributed.ranks.rank_pool import RankPool


def descendants(pid: int) -> list[psutil.Process]:
    """Processes below this one that are alive."""
    with contextlib.suppress(psutil.NoSuchProcess):
        below = psutil.Process(pid).children(recursive=True)
        return [each for each in below if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    return []


def zombies() -> list[int]:
    """Children of this process that are dead and not waited for."""
    found = []
    for each in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if each.status() == psutil.STATUS_ZOMBIE:
                found.append(each.pid)
    return found


def open_connections(pids: list[int]) -> list[str]:
    """Ports and connections of these processes, over the network's protocols."""
    found = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [
                f"{pid}: {each.laddr} {each.status}" for each in psutil.Process(pid).net_connections("inet")
            ]
    return found


def shared_memory_of_the_dead() -> set[str]:
    """Names in /dev/shm that hold the number of a process which is gone."""
    folder = Path("/dev/shm")
    names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    numbers = {name: [int(part) for part in name.split("_") if part.isdigit()] for name in names}
    return {name for name, parts in numbers.items() if parts and not psutil.pid_exists(parts[0])}


class Leftovers:
    """Counts before, and what is more after.

    >>> leftovers = Leftovers(pool)
    >>> leftovers.found()
    {}
    """

    def __init__(self, pool: RankPool) -> None:
        self._pool = pool
        self._processes = {each.pid for each in descendants(os.getpid())}  # of other tests
        self._zombies, self._connections = set(zombies()), set(open_connections([os.getpid()]))
        self._shared_memory = shared_memory_of_the_dead()
        self._files = set(os.listdir(tempfile.gettempdir()))
        self._pool.run(gc.collect)
        self._of_ranks = self._descriptors_of_ranks()
        self._descriptors, self._threads = self._counts()

    def found(self, within_s: float = 10.0) -> dict[str, object]:
        """What is left behind, by kind; empty when nothing is. Torch's own threads may close their sockets a little later."""
        until = time.monotonic() + within_s
        self._pool.run(gc.collect)  # once: gloo closes descriptors of each run a moment after it
        while (left := self._found_now()) and time.monotonic() < until:
            time.sleep(0.05)
        return left

    def _found_now(self) -> dict[str, object]:
        of_ranks = self._descriptors_of_ranks()
        ranks = list(self._pool.pids.values())
        descriptors, threads = self._counts()
        spawned = {each.pid for each in descendants(os.getpid())} - set(ranks) - self._processes
        grown = {
            pid: (self._of_ranks[pid], now)
            for pid, now in of_ranks.items()
            if pid in self._of_ranks and now > self._of_ranks[pid]
        }
        left: dict[str, object] = {
            "processes": sorted(spawned),
            "zombies": sorted(set(zombies()) - self._zombies),
            "connections": sorted(set(open_connections([os.getpid(), *ranks])) - self._connections),
            "shared memory": sorted(
                name
                for name in shared_memory_of_the_dead() - self._shared_memory
                if not name.startswith(
                    "__KMP_REGISTERED_LIB_"
                )  # of Intel's OpenMP, which other tests start beside this one
            ),
            "files": self._new_files(),
            "descriptors": max(0, descriptors - self._descriptors),
            "descriptors of ranks": grown,
            "threads": max(0, threads - self._threads),
        }
        return {kind: what for kind, what in left.items() if what}

    def _new_files(self) -> list[str]:
        """In the folder for temporary files, beside a folder for each rank that is up and the one of this process."""
        now = {name for name in os.listdir(tempfile.gettempdir()) if not name.startswith("accel-kernel-")}
        of_ranks = {name for name in now if name.startswith("accel-rank-")}
        others = sorted(name for name in now - of_ranks - self._files if not name.startswith("torchinductor"))
        return others if len(of_ranks) <= len(self._pool.pids) else sorted({*others, *of_ranks})

    def _counts(self) -> tuple[int, int]:
        """Of this process; a rank that is up has a socket, a pipe, a folder and a thread of its own, which are no leftovers."""
        gc.collect()
        up = len(self._pool.pids)
        threads = [each for each in threading.enumerate() if each.name != "accel-spawner"]
        return psutil.Process().num_fds() - 3 * up, len(threads) - up

    def _descriptors_of_ranks(self) -> dict[int, int]:
        found = {}
        for pid in self._pool.pids.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                found[pid] = psutil.Process(pid).num_fds()
        return found
