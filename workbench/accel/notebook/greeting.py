"""One line after `%load_ext accel`: which accel, on what, and what to do first."""

from __future__ import annotations

import sys
from contextlib import suppress

_FIRST_CPUS = 4096  # bytes: the kernel asks each CPU for its clock as the whole file is read


def greet() -> None:
    """Print it, unless `accel.options.status_line` is False."""
    from accel import options

    if options.status_line:
        print(status_line())


def status_line() -> str:
    """What a new user needs, read in a millisecond.

    >>> status_line()
    'accel 0.1.0 · AMD EPYC, 2 cores · put %%accel profile above your training cell'
    """
    from accel.machine.cpu import model_in
    from accel.machine.usable_cores import read_usable_cores
    from accel.units import counted

    model = ""
    with suppress(OSError), open("/proc/cpuinfo", errors="replace") as file:
        model = model_in(file.read(_FIRST_CPUS))
    cores = counted(read_usable_cores("/", ()).count, "core")
    machine = f"{model}, {cores}" if model else cores
    return (
        f"accel {sys.modules['accel'].__version__} · {machine} · put %%accel profile above your training cell"
    )
