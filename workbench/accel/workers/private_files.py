"""What the cell writes in a worker goes to a private folder: a trial runs the cell again and again, on the user's disk.

Opening a file for writing, and `torch.save`, are led to a folder that ends with the worker; what was written there is read
back from there. Files in the system's temporary folder, devices and compilers' caches are left alone. What cannot be led
away (removing or renaming the user's files) is refused with an error that names the file.
"""

from __future__ import annotations

import builtins
import hashlib
import io
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from accel.errors import AccelError

# Audit events that are refused, with the places of their paths and of the folders' descriptors these are relative to.
_REFUSED: dict[str, tuple[tuple[int, int | None], ...]] = {
    "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.rmdir": ((0, 1),),
    "os.truncate": ((0, None),),
    "shutil.rmtree": ((0, 1),),
    "shutil.move": ((0, None), (1, None)),
}


class PrivateFiles:
    """Installed once in a worker, for the rest of its life.

    >>> PrivateFiles(folder).install()
    """

    def __init__(self, folder: str, asked: str = "A trial", then: str = "profile this one again") -> None:
        self._asked, self._do = asked, f"Move that line to a cell of its own and {then}."
        self._folder = folder
        self._open: Callable[..., Any] = builtins.open
        home = os.path.expanduser("~")
        caches = [os.path.join(home, name) for name in (".cache", ".triton", ".nv", ".config/matplotlib")]
        inductor = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
        self._left_alone = [
            tempfile.gettempdir(),
            folder,
            "/dev",
            "/proc",
            *caches,
            *filter(None, [inductor]),
        ]

    def install(self) -> None:
        """Patch `open` and `torch.save`, and watch for what cannot be led away."""
        import torch

        save = torch.save

        def save_privately(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            return save(
                obj, self._for_writing(f) if isinstance(f, (str, os.PathLike)) else f, *args, **kwargs
            )

        torch.save = save_privately
        builtins.open = io.open = self._open_privately
        sys.addaudithook(self._watch)

    def _open_privately(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if isinstance(file, (str, bytes, os.PathLike)):
            writes = any(letter in mode for letter in "wax+")
            file = self._for_writing(file) if writes else self._for_reading(file)
        return self._open(file, mode, *args, **kwargs)

    def _private(self, path: Any) -> str | None:
        """Where a path is led to; None when it is left alone."""
        full = os.path.realpath(os.fsdecode(path))
        if any(full == root or full.startswith(root.rstrip("/") + "/") for root in self._left_alone):
            return None
        if "__pycache__" in full:
            return None
        name = f"{hashlib.sha256(full.encode()).hexdigest()[:16]}-{os.path.basename(full)}"
        return os.path.join(self._folder, name)

    def _for_writing(self, path: Any) -> Any:
        private = self._private(path)
        if private is None:
            return path
        if not os.path.exists(private) and os.path.isfile(path):  # appending goes on from what is there
            with self._open(path, "rb") as source, self._open(private, "wb") as target:
                target.write(source.read())
        return private

    def _for_reading(self, path: Any) -> Any:
        private = self._private(path)
        return private if private is not None and os.path.exists(private) else path

    def _watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        for place, descriptor_place in _REFUSED.get(event, ()):
            path = arguments[place]
            if not isinstance(path, (str, bytes, os.PathLike)):
                continue
            if self._private(_absolute(path, arguments, descriptor_place)) is not None:
                raise AccelError(
                    f"{self._asked} runs the cell again and again, and it would change {os.fsdecode(path)!r} ({event})",
                    because=f"that is a file of yours, and {self._asked[0].lower()}{self._asked[1:]} changes nothing of yours",
                    do=self._do,
                )


def _absolute(path: Any, arguments: tuple[Any, ...], descriptor_place: int | None) -> str:
    """The path itself, also where it is relative to an open folder (as `shutil.rmtree` gives it)."""
    text = os.fsdecode(path)
    if descriptor_place is None or descriptor_place >= len(arguments):  # before Python 3.12 rmtree tells none
        return text
    descriptor = arguments[descriptor_place]
    if os.path.isabs(text) or not isinstance(descriptor, int) or descriptor < 0:
        return text
    return os.path.join(os.path.realpath(f"/proc/self/fd/{descriptor}"), text)
