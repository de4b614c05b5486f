"""A folder for what a rank's Python puts into files while it shares data with its loader's processes.

multiprocessing keeps sockets in such a folder and removes it when a process ends by itself; one that is killed leaves it. So
each rank has one that the kernel made, holds locked and removes; where the kernel itself was killed, the next one removes it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time

from accel.distributed.oneccl.leftovers import remove_of

_PREFIX = "accel-rank-"
_NAME = re.compile(rf"{_PREFIX}\w{{8}}$")
_SETTLED_S = (
    60.0  # so long ago a folder must have been made that nobody holds: its maker may not have locked it yet
)


class RankFolder:
    """A folder of this user alone, until `close`.

    >>> folder = RankFolder(); folder.path
    '/tmp/accel-rank-k3j2h1g0'
    """

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix=_PREFIX)
        self._descriptor = os.open(self.path, os.O_RDONLY)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def close(self) -> None:
        """Remove it with all that is in it."""
        if self._descriptor >= 0:
            remove_of(self.path)
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._descriptor)
            self._descriptor = -1


def remove_abandoned() -> None:
    """Remove the folders that kernels left which were killed: nobody holds them any more."""
    for entry in list(os.scandir(tempfile.gettempdir())):
        if not _NAME.match(entry.name):
            continue
        try:
            told = entry.stat(follow_symlinks=False)
            if told.st_uid != os.getuid() or time.time() - told.st_ctime < _SETTLED_S:
                continue
            descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:  # another kernel was faster
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_of(entry.path)
            shutil.rmtree(entry.path, ignore_errors=True)
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)
