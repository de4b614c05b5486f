"""The user's disk as a cell is to see it: real files, with what the cell wrote lying in a private folder over them.

    shadow = Shadow(folder, left_alone=["/dev"])
    shadow.for_writing("/data/log.txt")     # /…/disk/data/log.txt, which begins as a copy
    shadow.for_reading("/data/log.txt")     # the same from now on

Paths only: `led_calls.py` asks it on behalf of Python's own functions.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Collection, Iterator
from typing import Any

from accel.private_disk.mounts import is_in

_MOST_LINKS = 40  # as Linux follows


class Shadow:
    """Where each path of the user's is led to.

    Places in `left_alone` are led nowhere, except for what lies in `own`. With `only`, just files that lie directly in those
    folders are led, and what the cell makes below them.
    """

    def __init__(
        self,
        folder: str,
        *,
        left_alone: Collection[str] = (),
        own: Collection[str] = (),
        only: Collection[str] = (),
    ) -> None:
        self._home = os.path.realpath(folder)
        self._folder = os.path.join(self._home, "disk")
        os.makedirs(self._folder, exist_ok=True)
        self._left_alone = [os.path.realpath(place) for place in left_alone]
        self._own = [os.path.realpath(place) for place in own]
        self._only = set(only)
        self._removed: set[str] = set()
        self.is_used = False

    def real(self, path: Any, directory: Any = None, *, follows: bool = True) -> str | None:
        """The user's path that the system would reach; None where it is left alone."""
        full = _absolute(path, directory)
        if full is None:
            return None
        parent, name = os.path.split(full)
        found = os.path.realpath(full) if follows else os.path.join(os.path.realpath(parent), name)
        return found if self.is_led(found) else None

    def seen(self, path: Any, directory: Any = None, *, follows: bool = True) -> tuple[str, bool] | None:
        """The path that the cell means, without links, and whether only the cell sees it so: by a link of its own, or because it
        stands in the private folder after `os.chdir`.
        """
        full = _absolute(path, directory)
        if full is None:
            return None
        is_inside = is_in(full, self._folder)
        found, is_own = self._resolved(full[len(self._folder) :] if is_inside else full, follows=follows)
        return found, is_inside or is_own

    def is_led(self, found: str) -> bool:
        """Whether this path, which has no links in it, is the user's."""
        if is_in(found, self._home) or self._is_left_alone(found):
            return False
        return not self._only or self._is_in_only(os.path.dirname(found))

    def _is_left_alone(self, found: str) -> bool:
        return any(is_in(found, each) for each in self._left_alone) and not any(
            is_in(found, each) for each in self._own
        )

    def _is_in_only(self, folder: str) -> bool:
        """Whether it is one of them, or a folder that the cell made below one."""
        is_new = any(is_in(folder, each) for each in self._only) and os.path.isdir(self.private(folder))
        return folder in self._only or (is_new and not os.path.lexists(folder))

    def _resolved(self, full: str, *, follows: bool) -> tuple[str, bool]:
        """The path without links, as the cell sees them; and whether one was its own, which lies in the private folder."""
        rest = list(filter(None, reversed(full.split("/"))))
        found, links, is_own = "", 0, False
        while rest:
            name = rest.pop()
            if name == "..":
                found = found.rpartition("/")[0]
            elif name != ".":
                place = f"{found}/{name}"
                link = self._link(place) if (rest or follows) and links < _MOST_LINKS else None
                if link is None:
                    found = place
                    continue
                links += 1
                is_own = is_own or self.for_reading(place) != place
                found = "" if link.startswith("/") else found
                rest += filter(None, reversed(link.split("/")))
        return found or "/", is_own

    def _link(self, place: str) -> str | None:
        """Where a link leads; None where the path is none."""
        try:
            return os.readlink(self.for_reading(place))
        except OSError:
            return None

    def private(self, real: str) -> str:
        """Where it would lie."""
        return self._folder + real

    def is_removed(self, real: str) -> bool:
        """Whether the cell removed it, or a folder above it."""
        return any(real == each or real.startswith(f"{each}/") for each in self._removed)

    def exists(self, real: str) -> bool:
        """As the cell sees it."""
        return os.path.lexists(self.private(real)) or (os.path.lexists(real) and not self.is_removed(real))

    def for_reading(self, real: str) -> str:
        """The path to read instead."""
        private = self.private(real)
        return private if os.path.lexists(private) or self.is_removed(real) else real

    def for_writing(self, real: str) -> str:
        """The path to write to instead; what was there is copied first."""
        private = self.private(real)
        if os.path.lexists(private):
            return private
        self._make_room(real)
        if os.path.isdir(real) and not self.is_removed(real):
            os.makedirs(private, exist_ok=True)
        elif os.path.isfile(real) and not self.is_removed(real):
            shutil.copy2(real, private)
        self._removed.discard(real)
        return private

    def _make_room(self, real: str) -> None:
        """Its folder, where the cell sees one; else the write fails as it would there."""
        self.is_used = True
        folder = os.path.dirname(real)
        if os.path.isdir(folder) and not self.is_removed(folder):
            os.makedirs(self.private(folder), exist_ok=True)

    def remove(self, real: str) -> None:
        """The cell sees it no more; the user's own stays."""
        self.is_used = True
        private = self.private(real)
        if os.path.isdir(private) and not os.path.islink(private):
            shutil.rmtree(private)
        elif os.path.lexists(private):
            os.unlink(private)
        if os.path.lexists(real):
            self._removed.add(real)

    def move(self, source: str, target: str) -> None:
        """From one path of the user's to another, as the cell sees them."""
        if os.path.isdir(source) and not self.is_removed(source):
            raise OSError(
                errno.EXDEV, "In a trial, a folder of yours cannot be renamed", source, None, target
            )
        lies_at = self.for_writing(source)
        self._make_room(target)
        os.replace(lies_at, self.private(target))
        if os.path.lexists(source):
            self._removed.add(source)
        self._removed.discard(target)

    def entries(self, real: str) -> list[os.DirEntry[str]]:
        """What the cell sees in a folder; raises what listing it would."""
        found: dict[str, os.DirEntry[str]] = {}
        private, is_removed = self.private(real), self.is_removed(real)
        if os.path.isdir(private):
            found = {entry.name: entry for entry in os.scandir(private)}
        elif is_removed:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), real)
        if not is_removed and (os.path.isdir(real) or not found):
            for entry in os.scandir(real):
                if not self.is_removed(os.path.join(real, entry.name)):
                    found.setdefault(entry.name, entry)
        return list(found.values())


class Entries(contextlib.AbstractContextManager["Entries"]):
    """What `os.scandir` gives, of a list."""

    def __init__(self, entries: list[os.DirEntry[str]]) -> None:
        self._rest: Iterator[os.DirEntry[str]] = iter(entries)

    def __iter__(self) -> Entries:
        return self

    def __next__(self) -> os.DirEntry[str]:
        return next(self._rest)

    def close(self) -> None:
        """Nothing is open."""

    def __exit__(self, *_: object) -> None:
        return None


def _absolute(path: Any, directory: Any) -> str | None:
    """Also of a path relative to an open folder, and of a descriptor of one."""
    if isinstance(path, int):
        return os.path.realpath(f"/proc/self/fd/{path}") if path > 2 else None
    if not isinstance(path, (str, bytes, os.PathLike)):
        return None
    text = os.fsdecode(path)
    if not text or "\0" in text:
        return None
    base = os.path.realpath(f"/proc/self/fd/{directory}") if isinstance(directory, int) else os.getcwd()
    return os.path.join(base, text)
