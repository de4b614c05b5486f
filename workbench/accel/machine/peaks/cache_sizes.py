"""The last-level caches that may hold what is measured, and from them how much data tells of memory and how much of caches."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from accel.machine.hardware import known_cpus
from accel.machine.machine import Machine

ASSUMED_BYTES = 4 << 20  # where the system reports no cache
FILLED = 0.9  # of the caches: what holds for data that only just stays in them
TIMES_CACHES = 4  # data of so many times the caches: each pass has driven out what the one before left there
LEAST_MEMORY_BYTES = 384 << 20  # a virtual machine may report less cache than it has
LARGEST_SHARE = 4  # at most one part in so many of the memory that is left


@dataclass(frozen=True)
class CacheSizes:
    """Bytes of each last-level cache that the CPUs in use have, the largest first: one a chiplet or socket.

    >>> CacheSizes((32 << 20,) * 8).total(threads=64) >> 20
    256
    """

    each_bytes: tuple[int, ...]

    def total(self, threads: int | None = None) -> int:
        """What they hold together; `threads` fill no more caches than there are threads."""
        return sum(self.each_bytes[:threads]) or ASSUMED_BYTES

    def cached_bytes(self, threads: int) -> int:
        """Data that so many threads only just keep in them."""
        return int(FILLED * self.total(threads))

    def memory_bytes(self, available_bytes: int) -> tuple[int, str]:
        """Data that they cannot keep, and in words where too little memory is left for that much.

        >>> CacheSizes((32 << 20,) * 8).memory_bytes(64 << 30)
        (1073741824, '')
        """
        wanted = max(LEAST_MEMORY_BYTES, TIMES_CACHES * self.total())
        most = available_bytes // LARGEST_SHARE if available_bytes else wanted
        if most >= wanted or most >= TIMES_CACHES * self.total():
            return min(wanted, most), ""
        return most, (
            f"cpu: the rate of memory may be too high: too little memory is free for {TIMES_CACHES} times the "
            f"{self.total() >> 20} MiB of its caches, so {most >> 20} MiB were moved. Free some, then %accel peaks --again."
        )


def cache_sizes(machine: Machine, allowed: Collection[int], root: Path | str = "/") -> CacheSizes:
    """Those of the CPUs `allowed` (empty: of all); from their totals where the system does not tell which CPU has which.

    >>> cache_sizes(read_machine(), os.sched_getaffinity(0)).each_bytes
    (33554432,)
    """
    last = {}
    for cpu in known_cpus(root).cpus:
        cache = cpu.last_cache
        if cache is not None and (not allowed or cpu.number in allowed):
            last[cache.name, cache.shared] = cache.size_bytes
    if not any(last.values()):
        name = max((cache.name for cache in machine.caches), default="")
        return CacheSizes(
            tuple(
                cache.bytes_each for cache in machine.caches if cache.name == name for _ in range(cache.count)
            )
        )
    return CacheSizes(tuple(sorted(last.values(), reverse=True)))
