"""Set an affinity mask, or say why the system does not let us."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from accel.errors import AccelError
from accel.machine.cpu_lists import cpu_list


def pin(cpus: Sequence[int], *, asked: str) -> tuple[int, ...]:
    """Set the mask of every thread of this process; gives that of the calling thread, read back.

    >>> pin((0, 1), asked="Pinning rank 0")
    (0, 1)
    """
    check_mask(cpus, asked=asked)
    if sys.platform != "linux":  # check_mask has raised
        return ()
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(int(thread), cpus)
    return tuple(sorted(os.sched_getaffinity(0)))


def check_mask(cpus: Sequence[int], *, asked: str) -> None:
    """Raise AccelError if this process may not run on all of these CPUs; tried in a thread that ends with its mask.

    >>> check_mask((0, 1), asked="Pinning rank 0")
    """
    if sys.platform != "linux":
        raise AccelError(
            asked, because=f"{sys.platform} does not let a program choose its CPUs", do="Leave threads to the system here."
        )  # fmt: skip
    refused: list[str] = []

    def set_it() -> None:
        try:
            os.sched_setaffinity(0, cpus)
        except (OSError, ValueError) as error:
            refused.append(str(error))
        else:
            missing = sorted(set(cpus) - os.sched_getaffinity(0))
            if missing:
                refused.append(f"the system does not give out CPU {cpu_list(missing)}")

    thread = threading.Thread(target=set_it, name="accel-mask")
    thread.start()
    thread.join()
    if refused:
        online = cpu_list(sorted(os.sched_getaffinity(0)))
        raise AccelError(
            asked, because=refused[0], do=f"Use CPUs that are there; this process may use {online}."
        )
