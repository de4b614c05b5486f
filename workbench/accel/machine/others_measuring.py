"""Other notebooks of this user that measure at the same time: each has a locked file, which the others read."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
from pathlib import Path
from types import TracebackType

_PREFIX = "accel-measuring-"
_NAME = re.compile(rf"{_PREFIX}(\d+)-\w{{8}}$")
_MOST_BYTES = 4096


class OthersMeasuring:
    """While open, other kernels of this user see that this one measures; `look` finds them, `line` remembers them.

    >>> with OthersMeasuring() as others:
    ...     measure(); others.look()
    >>> others.line
    'Another notebook (process 4711, in ~/course) measured at the same time: both are slower for it.'

    A file that no process holds was left by a kernel that was killed: it counts for nothing and is removed.
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        self._folder = Path(tempfile.gettempdir() if folder is None else folder)
        self._file: tuple[int, str] | None = None
        self._found: dict[int, str] = {}  # where each of them runs, by its process

    def __enter__(self) -> OthersMeasuring:
        with contextlib.suppress(OSError):  # no room for a file: other kernels do not see this one
            descriptor, path = tempfile.mkstemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=self._folder)
            self._file = descriptor, path  # from here on `__exit__` removes it
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.write(descriptor, os.getcwd().encode()[:_MOST_BYTES])  # a deleted folder has no name
        self.look()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.look()
        if self._file is not None:
            descriptor, path = self._file
            self._file = None
            with contextlib.suppress(FileNotFoundError):  # somebody cleaned the folder up
                os.unlink(path)
            os.close(descriptor)

    def look(self) -> None:
        """Find those that measure now, too; called now and then, as they come and go."""
        try:
            names = [entry.name for entry in os.scandir(self._folder) if _NAME.match(entry.name)]
        except OSError:
            return
        for name in names:
            pid = int(_NAME.match(name)[1])  # type: ignore[index]
            if pid != os.getpid() and (where := _held(self._folder / name)) is not None:
                self._found[pid] = where

    @property
    def line(self) -> str:
        """Those that were found, in a sentence; empty where there was none."""
        if not self._found:
            return ""
        who = [
            f"process {pid}{f', in {where}' if where else ''}" for pid, where in sorted(self._found.items())
        ]
        many = len(who) > 1
        return (
            f"{'Other notebooks' if many else 'Another notebook'} ({'; '.join(who)}) measured at the same time: "
            "all of them are slower for it. Measure one after the other."
        )


def _held(path: Path) -> str | None:
    """The text of a file of this user that a process holds; None where no process does, and then it is removed."""
    try:
        descriptor = os.open(
            path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        )  # a pipe that somebody put there
    except OSError:  # it is gone, or another user's
        return None
    try:
        if os.fstat(descriptor).st_uid != os.getuid():
            return None
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with contextlib.suppress(FileNotFoundError):  # another kernel was faster
            if os.fstat(descriptor).st_size:  # else it is being made
                path.unlink()
    except BlockingIOError:
        text = os.read(descriptor, _MOST_BYTES).decode(errors="replace")
        return "".join(each for each in text if each.isprintable())
    finally:
        os.close(descriptor)
    return None
