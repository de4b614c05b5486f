"""Lists of CPUs, as the kernel writes them: "0-2,8"."""

from __future__ import annotations

from collections.abc import Iterable

HIGHEST_CPU = 2**16  # more than any kernel can be built for; a larger number is damage


def parse_cpu_list(listing: str) -> tuple[int, ...]:
    """The numbers in a kernel's CPU list; raises ValueError where it is none.

    >>> parse_cpu_list("0-2,8")
    (0, 1, 2, 8)
    """
    numbers: list[int] = []
    for part in filter(None, listing.strip().split(",")):
        first, _, last = part.partition("-")
        if max(int(first), int(last or first)) > HIGHEST_CPU:
            raise ValueError(f"no machine has a CPU of the number in {part!r}")
        numbers += range(int(first), int(last or first) + 1)
    return tuple(numbers)


def cpus_in(listing: str) -> tuple[int, ...]:
    """The same in ascending order, for lists of a file that may be damaged: what is no list holds no CPUs.

    >>> cpus_in("8,0-2"), cpus_in("0-")
    ((0, 1, 2, 8), (0,))
    """
    try:
        return tuple(sorted({number for number in parse_cpu_list(listing) if number >= 0}))
    except ValueError:
        return ()


def cpu_list(cpus: Iterable[int]) -> str:
    """Cores as the kernel lists them.

    >>> cpu_list((0, 1, 2, 8))
    '0-2,8'
    """
    runs: list[list[int]] = []
    for cpu in cpus:
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
