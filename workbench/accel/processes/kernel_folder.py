"""A folder that the kernel makes for a process of ours, holds locked and removes: processes that are killed remove nothing.

Sockets that multiprocessing makes, and what a trial's cell writes, lie in it. Where the kernel itself was killed, the next one
removes it: nobody holds its lock any more.
"""

from __future__ import annotations

import atexit
import fcntl
import multiprocessing
import os
import re
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from accel.errors import AccelError
from accel.private_disk.removal import remove_tree

FOLDER = "ACCEL_FOLDER"  # the variable by which a child knows its own
_SETTLED_S = 60.0  # a younger folder that nobody holds may have a maker who is about to lock it
_lock, _closing = threading.Lock(), threading.Lock()
_own: KernelFolder | None = None
_open: weakref.WeakSet[KernelFolder] = weakref.WeakSet()
BeforeRemoval = Callable[[str], object]


class KernelFolder:
    """A folder of this user alone, until `close`.

    >>> folder = KernelFolder("trial"); folder.path
    '/tmp/accel-trial-k3j2h1g0'
    """

    def __init__(self, of: str) -> None:
        self.path, self._maker = "", os.getpid()
        try:
            self.path = tempfile.mkdtemp(prefix=f"accel-{of}-")
            self._descriptor = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            if self.path:
                os.rmdir(self.path)
            raise no_room_for(error) from error
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        _open.add(self)

    @property
    def is_open(self) -> bool:
        """Whether it is still there."""
        return self._descriptor >= 0

    @property
    def is_ours(self) -> bool:
        """Whether this process made it, and not the one that the user's own code forked it from."""
        return self._maker == os.getpid()

    def close(self) -> None:
        """Remove it with all that is in it."""
        with _closing:  # from any thread: a number closed twice may be another file's by then
            descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)  # first: where no file can be opened any more, removing needs it
            remove_tree(self.path)


def own_folder() -> str:
    """In a child: its folder, which the kernel made and removes."""
    return os.environ[FOLDER]


def no_room_for(error: OSError) -> AccelError:
    """Why no folder could be made for a process, and what to do."""
    return AccelError(
        "Starting a process of accel's own",
        because=f"it needs a folder for temporary files and cannot have one: {error.strerror or error}",
        do="Free some room there, close what holds many files open, or set TMPDIR to a folder that can be written to and "
        "restart the kernel.",
    )


def remove_abandoned(*kinds: str, before: BeforeRemoval = lambda _: None) -> None:
    """Remove what kernels that were killed left of these kinds of folders; `before` is called with each."""
    name = re.compile(rf"accel-({'|'.join(kinds)})-\w{{8}}$")
    try:
        entries = list(os.scandir(tempfile.gettempdir()))
    except OSError as error:
        raise no_room_for(error) from error
    for entry in entries:
        if name.match(entry.name):
            _remove_if_abandoned(entry, before)


def _remove_if_abandoned(entry: os.DirEntry[str], before: BeforeRemoval) -> None:
    try:
        found = entry.stat(follow_symlinks=False)
        if found.st_uid != os.getuid() or time.time() - found.st_ctime < _SETTLED_S:
            return
        descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    except OSError:  # another kernel was faster
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        before(entry.path)
        remove_tree(entry.path)
    except BlockingIOError:  # its kernel lives
        return
    finally:
        os.close(descriptor)


def keep_multiprocessing_in(path: str) -> None:
    """Have multiprocessing make its sockets there, and not in a folder (pymp-*) that a killed process leaves.

    A folder that it uses already stays, while it is there.
    """
    settings: dict[str, Any] = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    if not os.path.isdir(settings.get("tempdir") or ""):
        settings["tempdir"] = path


def own_kernel_folder() -> KernelFolder:
    """The one of this kernel itself, for its own loaders' sockets; the first call also removes what killed kernels left."""
    global _own
    with _lock:
        if _own is None or not os.path.isdir(_own.path):
            remove_abandoned("trial", "peaks", "prune", "kernel")
            _own = KernelFolder("kernel")
            keep_multiprocessing_in(_own.path)
        return _own


@atexit.register  # before that of child.py, which is called first therefore: what children have open is closed then
def _remove_all() -> None:
    for folder in list(_open):
        if folder.is_ours:
            folder.close()
