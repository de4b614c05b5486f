"""What oneCCL leaves in /dev/shm: 64 MiB a rank, named after its process, also when that ends by itself."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from accel.processes.kernel_folder import FOLDER

_SHARED = Path("/dev/shm")
_NOTE = "oneccl-process"  # in the rank's folder, which is removed by the kernel, or by the next one where that was killed


def note_this_process() -> None:
    """In a rank, before its first use of oneCCL: whoever removes its folder shall look for what it left."""
    folder = os.environ.get(FOLDER)
    if folder:
        Path(folder, _NOTE).write_text(str(os.getpid()))


def remove_of(folder: str) -> None:
    """Remove what the process noted in this folder left; it has ended.

    >>> remove_of("/…/accel-rank-k3j2h1g0")
    """
    try:
        pid = int(Path(folder, _NOTE).read_text())
    except (OSError, ValueError):
        return  # it did not use oneCCL
    for path in _SHARED.glob(f"{pid}:*"):
        with contextlib.suppress(OSError):
            if path.stat(follow_symlinks=False).st_uid == os.getuid():
                path.unlink()
