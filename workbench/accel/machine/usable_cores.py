"""How many of the machine's cores this process may use, and what it is that allows no more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from accel.machine.cgroup import cpu_quota, cpu_set
from accel.machine.cpu_lists import cpu_list, cpus_in
from accel.machine.system_files import text_of
from accel.units import in_number


@dataclass(frozen=True)
class UsableCores:
    """The CPUs that are online, the affinity mask (empty: none reported), and the container's quota and set of CPUs.

    >>> print(UsableCores(64, tuple(range(64)), quota_cores=1.5))
    2 usable of 64: the container's quota of 1.5 cores
    """

    online: int
    allowed: tuple[int, ...] = ()
    quota_cores: float | None = None
    cpu_set: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """As many threads as can run at the same time; a quota of 1.5 cores lets two run."""
        most = len(self.allowed) or self.online
        return max(1, min(most, math.ceil(self.quota_cores))) if self.quota_cores else most

    @property
    def limit(self) -> str:
        """What allows no more, in words; empty where all cores may be used."""
        mask = len(self.allowed) or self.online
        if self.quota_cores and self.count < mask:
            on_cpus = "" if mask == self.online else f", on {_named(self.allowed)}"
            return f"the container's quota of {self.quota_cores:g} {in_number(self.quota_cores, 'core')}{on_cpus}"
        if mask == self.online:
            return ""
        is_set = set(self.cpu_set) <= set(self.allowed) and self.cpu_set
        return f"{'the container' if is_set else 'this process'} is confined to {_named(self.allowed)}"

    def __str__(self) -> str:
        counted = f"{self.count} usable of {self.online}"
        return f"{counted}: {self.limit}" if self.limit else counted


def _named(cpus: tuple[int, ...]) -> str:
    return f"{in_number(len(cpus), 'CPU')} {cpu_list(cpus)}"


def read_usable_cores(root: Path | str, online: tuple[int, ...]) -> UsableCores:
    """The mask of this process and the limits of its cgroup below `root`; `online` are the machine's CPUs.

    >>> read_usable_cores("/", (0, 1)).count
    2
    """
    root = Path(root)
    fields = (line.partition(":") for line in text_of(root / "proc/self/status").splitlines())
    mask = next((cpus_in(value) for name, _, value in fields if name == "Cpus_allowed_list"), ())
    allowed = tuple(cpu for cpu in mask if cpu in set(online)) if online else mask
    return UsableCores(len(online) or len(mask), allowed, cpu_quota(root), cpu_set(root))
