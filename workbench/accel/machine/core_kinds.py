"""Which cores are the fast ones and which the economical ones, where a processor has both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from accel.machine.cpu_tree import CpuTree, KnownCpu

TURBO_BIN = 0.85
"""Favoured cores are a turbo bin faster than others of their kind; economical ones are slower by more than this."""


class OfSomeSpeed(Protocol):
    """A logical CPU: its number, and what is known of how fast it is (0 and False where nothing is)."""

    @property
    def number(self) -> int:
        """The kernel's number."""

    @property
    def speed(self) -> int:
        """The highest clock in kHz."""

    @property
    def capacity(self) -> int:
        """How much it computes, the strongest of the machine being 1024."""

    @property
    def is_economical(self) -> bool:
        """Whether the kernel lists it with the economical cores."""


def economical_cpus(cpus: Sequence[OfSomeSpeed]) -> frozenset[int]:
    """The CPUs of economical cores: the kernel says so, or they are slower than the fastest by more than a turbo bin.

    A CPU with an unknown clock does not count as slow.

    >>> economical_cpus(read_cpu_tree().cpus)
    frozenset()
    """
    fastest = max((cpu.speed for cpu in cpus), default=0)
    strongest = max((cpu.capacity for cpu in cpus), default=0)
    found = frozenset(
        cpu.number
        for cpu in cpus
        if cpu.is_economical
        or 0 < cpu.speed < TURBO_BIN * fastest
        or 0 < cpu.capacity < TURBO_BIN * strongest
    )
    return found if len(found) < len(cpus) else frozenset()


@dataclass(frozen=True)
class CoreKind:
    """The cores of one kind: how many, with how many threads, and their highest clock (0: unknown)."""

    name: str
    cores: int
    threads: int
    highest_mhz: float = 0.0

    def __str__(self) -> str:
        more = [f"{self.threads} threads"] if self.threads > self.cores else []
        more += [f"up to {self.highest_mhz / 1000:.1f} GHz"] if self.highest_mhz else []
        counted = f"{self.cores} {self.name}"
        return f"{counted} ({', '.join(more)})" if more else counted


def core_kinds(tree: CpuTree) -> tuple[CoreKind, ...]:
    """Fast cores and economical ones; empty where all are of one kind.

    >>> [str(kind) for kind in core_kinds(read_cpu_tree(laptop))]
    ['6 fast (12 threads, up to 4.8 GHz)', '8 economical (up to 3.6 GHz)']
    """
    economical = economical_cpus(tree.cpus)
    if not economical:
        return ()
    fast = [cpu for cpu in tree.cpus if cpu.number not in economical]
    return _kind("fast", fast), _kind("economical", [cpu for cpu in tree.cpus if cpu.number in economical])


def _kind(name: str, cpus: Sequence[KnownCpu]) -> CoreKind:
    cores = {cpu.siblings or (cpu.number,) for cpu in cpus}
    return CoreKind(name, len(cores), len(cpus), max(cpu.speed for cpu in cpus) / 1000)
