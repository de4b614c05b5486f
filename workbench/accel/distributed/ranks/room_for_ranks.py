"""Whether this machine has memory and CPUs for so many ranks, before they are started."""

from __future__ import annotations

from accel.errors import AccelError
from accel.machine.memory import read_memory
from accel.machine.system_files import size_text
from accel.processes.starting_mask import starting_mask
from accel.units import counted

RANK_BYTES = 400 * 2**20  # its own, with torch imported and joined to the group, before it trains


def check_room(ranks: int, *, available_bytes: int | None = None) -> None:
    """Raises AccelError where the ranks alone would fill the memory; a container's limit counts.

    >>> check_room(2)
    """
    available = read_memory().available_bytes if available_bytes is None else available_bytes
    if not available or ranks * RANK_BYTES <= available:  # 0: the system does not tell
        return
    fitting = available // RANK_BYTES
    raise AccelError(
        f"-n {ranks}",
        because=f"a rank takes about {size_text(RANK_BYTES)} before it trains, {ranks} of them {size_text(ranks * RANK_BYTES)}, "
        f"and {size_text(available)} of memory are available",
        do=f"Use at most -n {fitting}." if fitting else "End something that takes memory first.",
    )


def crowding(ranks: int) -> str:
    """A sentence where there are more ranks than CPUs; empty where there are not.

    >>> crowding(1)
    ''
    """
    cpus = len(starting_mask())
    if ranks <= cpus:
        return ""
    return f"{ranks} ranks share {counted(cpus, 'CPU')}: they start and train slower than {cpus} would."
