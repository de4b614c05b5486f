"""Python's own functions for files, led to a `Shadow`: what a trial's cell writes lies there, and is read back from there.

Where the system gives no private view of the disk. Code in C++ that opens files by itself passes by, except for what torch and
safetensors write; an audit hook refuses what Python's interpreter still does to files of the user's.
"""

from __future__ import annotations

import builtins
import errno
import importlib.util
import io
import os
import pathlib
import sqlite3
import sys
import threading
from collections.abc import Callable
from typing import Any

from accel.private_disk.refused_events import WRITING, RefusedEvents
from accel.private_disk.shadow import Entries, Shadow

_READS = ("stat", "lstat", "access", "readlink", "statvfs", "chdir", "getxattr", "listxattr")
_CHANGES = ("truncate", "chmod", "chown", "utime", "setxattr", "removexattr")
_MAKES = ("mkdir", "mkfifo", "mknod")
_OF_THE_LINK_ITSELF = ("lstat", "readlink", "mkdir", "mkfifo", "mknod")
_Function = Callable[..., Any]


class LedCalls:
    """Installed once in a process, for the rest of its life.

    >>> LedCalls(shadow).install(RefusedEvents(…))
    """

    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow
        self._inside = threading.local()  # what the shadow itself does is not led anywhere

    def install(self, refused: RefusedEvents) -> None:
        """Patch os, open, sqlite3, torch and safetensors, and refuse the rest."""
        for name in _READS:
            self._patch(os, name, self._leading(getattr(os, name), self._path_to_read, name))
        for name in _CHANGES:
            self._patch(os, name, self._leading(getattr(os, name), self._path_to_write, name))
        for name in _MAKES:
            self._patch(os, name, self._leading(getattr(os, name), self._path_to_make, name))
        for name in ("remove", "unlink", "rmdir"):
            self._patch(os, name, self._removing(getattr(os, name), is_folder=name == "rmdir"))
        for name in ("rename", "replace"):
            self._patch(os, name, self._moving(getattr(os, name)))
        for name in ("link", "symlink"):
            self._patch(os, name, self._linking(getattr(os, name), copies=name == "link"))
        self._patch(os, "listdir", self._listing(os.listdir, [].__class__))
        self._patch(os, "scandir", self._listing(os.scandir, Entries))
        self._patch(os, "open", self._opening_by_flags(os.open))
        builtins.open = io.open = self._opening_by_mode(io.open)
        _tell_pathlib("open", io.open)
        io.FileIO = _file_io(self._opening_by_mode)  # type: ignore[misc, assignment]
        sqlite3.connect = sqlite3.dbapi2.connect = self._of_path(sqlite3.connect, self._database, "database")
        self._patch_torch()
        self._patch_safetensors()
        refused.watch(self._shadow, self._inside)

    def _patch(self, module: Any, name: str, led: _Function) -> None:
        own = getattr(module, name)
        for those in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            if own in those:
                those.add(led)
        setattr(module, name, led)
        if module is os:
            _tell_pathlib(name, led)

    def _patch_torch(self) -> None:
        import torch

        writer: Any = torch.serialization._open_zipfile_writer_file
        began = writer.__init__
        writer.__init__ = lambda own, name: began(own, self._led(name, self._path_to_write))
        script: Any = torch.jit.RecursiveScriptModule  # type: ignore[attr-defined]
        save = script.save
        script.save = lambda own, f, *rest, **more: save(
            own, self._led(f, self._path_to_write), *rest, **more
        )
        torch.jit.load = self._of_path(torch.jit.load, self._path_to_read, "f")
        torch.from_file = self._of_path(torch.from_file, self._path_to_write, "filename")
        storage: Any = torch.UntypedStorage
        storage.from_file = staticmethod(self._of_path(storage.from_file, self._path_to_write, "filename"))

    def _patch_safetensors(self) -> None:
        if importlib.util.find_spec("safetensors") is None:
            return
        own: Any = importlib.import_module("safetensors")
        serialize = own.serialize_file
        led = {
            "serialize_file": lambda data, filename, *rest, **more: serialize(
                data, self._led(filename, self._path_to_write), *rest, **more
            ),
            "safe_open": self._of_path(own.safe_open, self._path_to_read, "filename"),
        }
        for module in [
            each for name, each in list(sys.modules.items()) if name.split(".")[0] == "safetensors"
        ]:
            for name in led.keys() & vars(module).keys():
                setattr(module, name, led[name])

    # --- one path ---------------------------------------------------------------------------------------------------

    def _led(
        self, path: Any, choose: Callable[[str], str], directory: Any = None, *, follows: bool = True
    ) -> Any:
        """The path to use; the one that was given where it is none of the user's or nothing was written there."""
        if getattr(self._inside, "is_led", False):
            return path
        self._inside.is_led = True
        try:
            seen = self._shadow.seen(path, directory, follows=follows)
            if seen is None:
                return path
            found, is_own = seen
            led = choose(found) if self._shadow.is_led(found) else found
            if led == found and not is_own:
                return path
            return os.fsencode(led) if isinstance(path, bytes) else led
        finally:
            self._inside.is_led = False

    def _path_to_read(self, real: str) -> str:
        return self._shadow.for_reading(real) if self._shadow.is_used else real

    def _path_to_write(self, real: str) -> str:
        return self._shadow.for_writing(real)

    def _path_to_make(self, real: str) -> str:
        if self._shadow.exists(real):  # said as the system says it: `exist_ok` relies on that
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), real)
        return self._shadow.for_writing(real)

    def _database(self, real: str) -> str:
        return real if os.path.basename(real) == ":memory:" else self._shadow.for_writing(real)

    def _of_path(self, own: _Function, choose: Callable[[str], str], name: str) -> _Function:
        """A function whose first argument, of this name, is a path."""

        def led(*given: Any, **named: Any) -> Any:
            if given:
                given = (self._led(given[0], choose), *given[1:])
            elif name in named:
                named[name] = self._led(named[name], choose)
            return own(*given, **named)

        return led

    def _leading(self, own: _Function, choose: Callable[[str], str], name: str) -> _Function:
        """A function of os, whose path may be relative to an open folder."""

        def led(path: Any, *rest: Any, **more: Any) -> Any:
            if isinstance(path, int):
                return own(path, *rest, **more)
            follows = name not in _OF_THE_LINK_ITSELF and more.get("follow_symlinks", True)
            directory = more.get("dir_fd")
            chosen = self._led(path, choose, directory, follows=follows)
            if chosen is not path and directory is not None:
                del more["dir_fd"]
            return own(chosen, *rest, **more)

        return led

    def _opening_by_flags(self, own: _Function) -> _Function:
        def led(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            choose = self._path_to_write if flags & WRITING else self._path_to_read
            chosen = self._led(path, choose, dir_fd, follows=not flags & os.O_NOFOLLOW)
            given: int = own(chosen, flags, mode, dir_fd=dir_fd if chosen is path else None)
            return given

        return led

    def _opening_by_mode(self, own: _Function) -> _Function:
        def led(file: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
            if isinstance(file, (str, bytes, os.PathLike)):
                writes = any(letter in str(mode) for letter in "wax+")
                file = self._led(file, self._path_to_write if writes else self._path_to_read)
            return own(file, mode, *rest, **more)

        return led

    # --- removing, moving, listing ----------------------------------------------------------------------------------

    def _removing(self, own: _Function, *, is_folder: bool) -> _Function:
        def removed(path: Any, *, dir_fd: int | None = None) -> Any:
            real, path = self._placed(path, dir_fd)
            if real is None:
                return own(path, dir_fd=dir_fd)
            with self._undisturbed():
                lies_at = self._shadow.for_reading(real)
                if (
                    not self._shadow.exists(real)
                    or (os.path.isdir(lies_at) and not os.path.islink(lies_at)) != is_folder
                ):
                    return own(lies_at)  # raises what it raises
                if is_folder and self._shadow.entries(real):
                    raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), os.fsdecode(path))
                return self._shadow.remove(real)

        return removed

    def _moving(self, own: _Function) -> _Function:
        def moved(src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> Any:
            source, src = self._placed(src, src_dir_fd)
            target, dst = self._placed(dst, dst_dir_fd)
            if source is None and target is None:
                return own(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            with self._undisturbed():
                if source is None and target is not None:
                    return own(src, self._shadow.for_writing(target), src_dir_fd=src_dir_fd)
                assert source is not None
                if not self._shadow.exists(source):
                    return own(self._shadow.for_reading(source), self._shadow.for_reading(source))  # raises
                if target is not None:
                    return self._shadow.move(source, target)
                own(self._shadow.for_writing(source), dst, dst_dir_fd=dst_dir_fd)
                return self._shadow.remove(source)

        return moved

    def _linking(self, own: _Function, *, copies: bool) -> _Function:
        def linked(src: Any, dst: Any, *rest: Any, **more: Any) -> Any:
            places = {name: more.pop(name, None) for name in ("src_dir_fd", "dst_dir_fd", "dir_fd")}
            source = self._led(src, self._path_to_write, places["src_dir_fd"]) if copies else src
            target = self._led(
                dst, self._path_to_make, places["dst_dir_fd"] or places["dir_fd"], follows=False
            )
            if target is dst:  # relative to what it was given with
                more |= {
                    name: place
                    for name, place in places.items()
                    if place is not None and name != "src_dir_fd"
                }
            return own(source, target, *rest, **more)

        return linked

    def _listing(self, own: _Function, of: Any) -> _Function:
        def listed(path: Any = ".") -> Any:
            path = "." if path is None else path
            real, path = self._placed(path, None, follows=True) if self._shadow.is_used else (None, path)
            if real is None:
                return own(path)
            with self._undisturbed():
                found = self._shadow.entries(real)
                return Entries(found) if of is Entries else [entry.name for entry in found]

        return listed

    def _placed(self, path: Any, directory: Any, *, follows: bool = False) -> tuple[str | None, Any]:
        """The user's path that the cell means, None where it is left alone; and then the path to give to the system."""
        if getattr(self._inside, "is_led", False):
            return None, path
        with self._undisturbed():
            seen = self._shadow.seen(path, directory, follows=follows)
            if seen is None:
                return None, path
            found, is_own = seen
            return (found, path) if self._shadow.is_led(found) else (None, found if is_own else path)

    def _undisturbed(self) -> _Undisturbed:
        return _Undisturbed(self._inside)


def _tell_pathlib(name: str, led: _Function) -> None:
    """In Python 3.10 it keeps functions of its own; its `open` is that of io."""
    accessor = getattr(pathlib, "_NormalAccessor", None)
    if hasattr(accessor, name):
        setattr(accessor, name, staticmethod(led))


class _Undisturbed:
    def __init__(self, inside: threading.local) -> None:
        self._inside = inside

    def __enter__(self) -> None:
        self._inside.is_led = True

    def __exit__(self, *_: object) -> None:
        self._inside.is_led = False


def _file_io(opening: Callable[[_Function], _Function]) -> type:
    """io.FileIO is a class, and others derive from it."""
    own = io.FileIO

    class FileIO(own):  # type: ignore[valid-type, misc]
        def __init__(self, file: Any, mode: str = "r", *rest: Any, **more: Any) -> None:
            opening(super().__init__)(file, mode, *rest, **more)

    return FileIO
