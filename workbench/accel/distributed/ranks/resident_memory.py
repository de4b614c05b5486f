"""How much memory this process has."""

from __future__ import annotations

import os


def resident_bytes() -> int:
    """Bytes of memory that this process occupies, shared ones included; 0 where the system does not tell.

    >>> resident_bytes() > 0
    True
    """
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
