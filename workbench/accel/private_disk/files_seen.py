"""What lies in a folder, to be compared with later: where no kernel keeps a cell from the user's files, somebody must look."""

from __future__ import annotations

import os
from dataclasses import dataclass

from accel.errors import AccelError

_MOST = 5000  # files and folders; reading so many takes some 50 ms
_OTHERS = (
    "__pycache__",
    "node_modules",
)  # and what begins with a dot: caches, Jupyter's checkpoints, version control

_Seen = dict[str, tuple[int, int, int]]


@dataclass(frozen=True)
class FilesSeen:
    """Time, size and mode of each file below a folder; notebooks are left out, which Jupyter saves by itself.

    >>> seen = FilesSeen.of("."); seen.changes()
    []
    """

    folder: str
    files: _Seen

    @classmethod
    def of(cls, folder: str) -> FilesSeen:
        """As they are now."""
        return cls(folder, _read(folder))

    def changes(self) -> list[str]:
        """Names that have appeared, gone or changed since."""
        now = _read(self.folder)
        if (
            len(self.files) >= _MOST or len(now) >= _MOST
        ):  # not all were seen: what is new or gone cannot be told
            return sorted(name for name in self.files.keys() & now.keys() if self.files[name] != now[name])
        return sorted(
            name for name in self.files.keys() | now.keys() if self.files.get(name) != now.get(name)
        )


def current_folder() -> str:
    """Where the notebook runs, and where its cells run in other processes; raises AccelError where it was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        raise AccelError(
            "Running a cell in a process of its own",
            because="the folder that this notebook runs in was removed",
            do="Go to another with os.chdir(…), then try again.",
        ) from error


def _read(folder: str) -> _Seen:
    found: _Seen = {}
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _OTHERS)
        for name in sorted(names):
            if name.startswith(".") or name.endswith((".ipynb", ".pyc")):
                continue
            if len(found) >= _MOST:
                return found
            path = os.path.join(place, name)
            try:
                told = os.stat(path, follow_symlinks=False)
            except OSError:  # removed since it was listed
                continue
            found[os.path.relpath(path, folder)] = (told.st_mtime_ns, told.st_size, told.st_mode)
    return found
