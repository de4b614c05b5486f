"""The core map with who is where: what `%accel affinity` shows, with what is wrong in words."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from accel.machine.affinity.affinity_notes import affinity_notes
from accel.machine.affinity.cpu_map import CpuMap, read_cpu_map
from accel.machine.affinity.processes_here import ProcessHere, processes_here
from accel.machine.affinity.thread_places import ThreadLooks, WhereThreadsAre
from accel.machine.usable_cores import read_usable_cores
from accel.processes.starting_mask import narrowing_variables, variables_of
from accel.shown import Shown, live_panel

BETWEEN_LOOKS_S = 0.05


@dataclass(frozen=True)
class Affinity(WhereThreadsAre, Shown):
    """Where the threads of this notebook and of its workers are, and what to change.

    Examples:
        >>> print(accel.affinity())
        >>> accel.affinity().notes
    """

    @property
    def notes(self) -> list[str]:
        """Narrowed masks, over-subscription, shared cores and crossed nodes, each with what to do."""
        return affinity_notes(self)

    def panel(self) -> Any:
        """The same as a live panel, which looks again about once a second while it is seen; for a notebook.

        Examples:
            >>> accel.affinity().panel()
        """
        return live_panel(self)

    def to_dict(self) -> dict[str, Any]:
        """CPUs, threads and notes as plain values."""
        return {
            "cpus": [asdict(cpu) for cpu in self.cpu_map.cpus], "threads": [asdict(each) for each in self.threads],
            "torch_threads": self.torch_threads, "environment": dict(self.environment), "notes": self.notes,
            "told": self.why_not, "quota_cores": self.usable.quota_cores if self.usable else None,
        }  # fmt: skip


class AffinityLooks:
    """Looks at the same machine again and again; from the second look on it is known how busy each thread was.

    >>> looks = AffinityLooks()
    >>> looks.look(); looks.look().threads[0].busy
    0.98
    """

    def __init__(
        self, ranks: Mapping[int, int] | None = None, *, pid: int | None = None, root: Path | str = "/"
    ) -> None:
        self._cpu_map = read_cpu_map(root)
        self._usable = read_usable_cores(root, tuple(self._cpu_map.by_number))
        self._ranks, self._pid = dict(ranks or {}), pid
        self._threads = ThreadLooks()
        self._processes: tuple[ProcessHere, ...] = ()

    def look(self, *, find_processes: bool = True) -> Affinity:
        """Where everything is now; without `find_processes`, only of the processes that were found before."""
        if sys.platform != "linux" or not self._cpu_map.cpus:
            why = f"Where threads run is not reported by this system ({sys.platform}); Linux tells it."
            return Affinity(CpuMap(()), (), why_not=why)
        if find_processes or not self._processes:
            self._processes = processes_here(self._ranks, pid=self._pid)
        torch = sys.modules.get("torch")
        is_other = self._pid not in (None, os.getpid())
        return Affinity(
            self._cpu_map,
            self._threads.look(self._processes),
            torch.get_num_threads() if torch is not None and not is_other else None,
            variables_of(self._pid) if is_other and self._pid is not None else narrowing_variables(),
            known_processes=self._processes,
            usable=self._usable,
        )


def affinity(
    ranks: Mapping[int, int] | None = None, *, pid: int | None = None, root: Path | str = "/"
) -> Affinity:
    """Where the threads of this process (or of `pid`), its loader workers and its ranks (rank → pid) are, and how busy.

    >>> accel.affinity().masks
    [('this notebook', '0-1')]
    >>> accel.affinity(pid=4711).notes           # a training script that runs elsewhere

    Two looks, 50 ms apart: a thread is busy if it used a fifth of a CPU or more between them. Ranks that torchrun started
    with this one are found by themselves. Raises AccelError where there is no process `pid`.
    """
    looks = AffinityLooks(ranks, pid=pid, root=root)
    found = looks.look()
    if found.why_not:
        return found
    time.sleep(BETWEEN_LOOKS_S)
    return looks.look(find_processes=False)
