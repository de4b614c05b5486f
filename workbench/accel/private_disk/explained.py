"""Errors of files, in a process whose disk is private: what they mean there."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from accel.errors import AccelError
from accel.private_disk.private_disk import mechanism_here

_FULL = ("the disk is full", "free some room")
_ANYWHERE = {  # because, do
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: ("a file would grow over the limit on its size", "raise it (ulimit -f)"),
    errno.EMFILE: ("the limit on open files is reached", "close some or raise it (ulimit -n)"),
    errno.ENFILE: ("the system's limit on open files is reached", "end programs that hold many"),
}
_IN_A_VIEW = {
    errno.ENOSPC: f"{': '.join(_FULL)} in the folder for temporary files, where what a trial writes is kept, or set TMPDIR",
    errno.EXDEV: "in a trial's private view of the disk a folder of yours cannot be renamed, but a new one can",
    errno.EROFS: "in a trial's private view of the disk this folder can only be read, as another disk is mounted in it",
    errno.EOVERFLOW: "in a trial's private view of the disk, files of other users cannot be changed",
}
_NO_SOCKETS = (
    "if that is a socket in a file (a database in /tmp), it answers nobody in a trial's private view of the disk: connect by TCP "
    "or in an earlier cell"
)
_BY_LANDLOCK = (
    "Landlock keeps programs and C++ code from your files here, and this one wanted to write there: move that line to a cell "
    "of its own"
)
_PROGRAMS = ("CalledProcessError", "SubprocessError")


@contextmanager
def in_words(asked: str) -> Iterator[None]:
    """Where the system has no more files or room for what is done within, AccelError says so; other errors pass.

    >>> with in_words("%accel try"):
    ...     start_workers()
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _ANYWHERE:
            raise
        because, do = _ANYWHERE[error.errno]
        raise AccelError(asked, because=because, do=f"{do[:1].upper()}{do[1:]}, then try again.") from error


def explained(error: BaseException) -> str:
    """What is behind it; empty where the error says all.

    >>> explained(OSError(errno.EMFILE, "Too many open files"))
    'the limit on open files is reached: close some or raise it (ulimit -n)'
    """
    mechanism = mechanism_here()
    anywhere = {number: ": ".join(both) for number, both in _ANYWHERE.items()}
    known = anywhere if mechanism is None else anywhere | _IN_A_VIEW
    if isinstance(error, OSError) and error.errno in known:
        return known[error.errno]
    if mechanism == "namespace" and isinstance(error, ConnectionRefusedError):
        return _NO_SOCKETS
    if mechanism != "landlock":
        return ""
    is_program = type(error).__name__ in _PROGRAMS
    words = str(error).lower()
    is_refused = any(
        each in words
        for each in ("permission denied", "read-only", "readonly", "unable to open", "cannot open")
    )
    return _BY_LANDLOCK if is_program or is_refused else ""
