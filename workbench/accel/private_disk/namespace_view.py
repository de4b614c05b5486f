"""A view of the disk that only this process and its children have: they read the user's files, and write beside them.

A mount namespace of its own, in which an overlay lies over every folder that can be written to. The kernel does that for every
way of writing, so programs and C++ code are held too. Root needs no more; anyone else makes a user namespace first, which a
process can only do while it has one thread. So there are two steps: `begin` as the process starts, `enter` when the cell comes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from collections.abc import Callable, Iterable

from accel.private_disk.mounts import disks_in_run, is_in, mount_points

_NEW_MOUNTS, _NEW_USER = 0x0002_0000, 0x1000_0000
_BIND, _RECURSIVE, _PRIVATE, _FOLLOWING, _REMOUNT, _READ_ONLY = 4096, 16384, 1 << 18, 1 << 19, 32, 1
_DETACH = 2
_KEPT_FLAGS = (
    1 | 2 | 4 | 8 | 1024 | 2048
)  # ro, nosuid, nodev, noexec, noatime, nodiratime: equal in statvfs and mount
_RELATIVE_ATIME = (4096, 1 << 21)  # in statvfs, in mount
_NO_UPPER_LAYER = (0x794C_7630, 0x6969, 0x6573_5546)  # overlayfs, NFS, FUSE: files go to memory there
NOT_COVERED = (
    "/dev",
    "/proc",
    "/sys",
    "/run",
)  # devices, shared memory, processes, sockets; but for disks in /run
_MANY = 64  # folders in one that has mounts below it: each needs an overlay of its own
_is_in_user_namespace = False


class NoView(Exception):
    """The system gives no such view; the reason is its text."""


def begin() -> None:
    """Take namespaces of this process's own; nothing has changed in them yet. Raises NoView."""
    if sys.platform != "linux":
        raise NoView("only Linux has mount namespaces")
    try:
        _call("unshare", _NEW_MOUNTS)
    except OSError:
        _unshare_as_user()
    try:
        _mount(
            None, "/", None, _FOLLOWING | _RECURSIVE
        )  # a disk that the user takes out is let go of here too
    except OSError as error:
        _stay_without_rights()
        raise NoView(f"mounts cannot be made private: {error.strerror}") from error


def _unshare_as_user() -> None:
    """A child tries it first: a process that may make a user namespace, but give nobody a name in it, could not leave it."""
    global _is_in_user_namespace
    child = os.fork()
    if child == 0:
        os._exit(_take_user_namespace())
    refused = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if refused := refused or _take_user_namespace():
        reason = os.strerror(refused) if refused > 0 else "the attempt was killed"
        raise NoView(f"user namespaces are not allowed: {reason}")
    _is_in_user_namespace = True


def _take_user_namespace() -> int:
    """Zero, or the number of the error."""
    user, group = os.getuid(), os.getgid()
    try:
        _call("unshare", _NEW_USER | _NEW_MOUNTS)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    except OSError as error:
        return error.errno or 1
    return 0


def enter(folder: str, *, shared: Iterable[str] = (), own: Iterable[str] = ()) -> list[str]:
    """Lay the overlays, whose upper layers lie below `folder`; gives folders whose own files can only be read.

    `shared` folders stay the user's own. To `own` ones a cell is likely to write: it is tried that this works and reaches
    no disk. Raises NoView, and all is as it was.
    """
    here = os.getcwd()
    try:
        _mount(None, "/", None, _PRIVATE | _RECURSIVE)  # nothing is mounted over the overlays from now on
        with _Overlays(folder, shared, own) as made:
            try:
                made.lay()
            except BaseException:
                made.undo()
                raise
            finally:
                os.chdir(
                    here
                )  # by its name: the process still stood below the overlays, or stands in one that is gone
    except OSError as error:
        raise NoView(f"no overlay over {error.filename or 'a folder'}: {error.strerror}") from error
    finally:
        _stay_without_rights()
    return made.read_only


def _stay_without_rights() -> None:
    """The user namespace gave this process rights that the user does not have; the cell is to have none of them."""
    if _is_in_user_namespace:
        drop_capabilities()


class _Overlays:
    """Paths are opened beforehand: soon each leads through an overlay. Whatever raises, `undo` gives the disk back as it was."""

    def __init__(self, folder: str, shared: Iterable[str], own: Iterable[str]) -> None:
        self._mounted = mount_points()
        self._folder = os.path.realpath(folder)
        self._laid: list[str] = []
        if _file_system(folder) in _NO_UPPER_LAYER:
            self._lay("tmpfs", folder, "tmpfs", 0, "mode=700")
        unmounted = [place for place in NOT_COVERED if os.path.isdir(place) and place not in self._mounted]
        self._layers = os.open(folder, os.O_PATH)
        self._shared = _opened([*shared, *unmounted])
        self._own = _opened(place for place in own if os.access(place, os.W_OK))
        self._covered: list[str] = []
        self._read_only: dict[str, bool] = {}  # whether the user may write to it
        self._count = 0

    def __enter__(self) -> _Overlays:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self._layers, *self._shared.values(), *self._own.values()):
            os.close(descriptor)

    @property
    def read_only(self) -> list[str]:
        """Folders of the user's whose own files can only be read."""
        return [folder for folder, is_the_users in self._read_only.items() if is_the_users]

    def lay(self) -> None:
        """All of them; raises NoView or OSError where the user could write to something that is not private then."""
        for name in sorted(os.listdir("/")):
            self._cover(f"/{name}")
        for place in disks_in_run(self._mounted):
            self._cover(place)
        self._cover_own()
        if self._count and not self._covered:
            raise NoView("Linux lays no overlay here")
        self._put_shared_through()
        for folder in sorted(self._read_only, reverse=True):  # inner folders first
            _make_read_only(folder, self._lay)
        self._prove()
        if os.access("/", os.W_OK):
            self._read_only["/"] = True
            _make_read_only("/", self._lay)

    def undo(self) -> None:
        """What lies over the disk is taken away, the last first."""
        for place in reversed(self._laid):
            with contextlib.suppress(OSError):  # it went with one above it
                _call("umount2", os.fsencode(place), _DETACH)

    def _cover(self, folder: str) -> None:
        """An overlay over it; where there are mounts below it, over each folder in it instead."""
        if folder in NOT_COVERED or os.path.islink(folder) or not os.path.isdir(folder):
            return
        has_mounts = self._has_mounts(folder)
        if not has_mounts and self._overlay(folder, folder):
            return
        if not has_mounts and any(is_in(place, folder) for place in self._own):
            raise NoView(f"Linux lays no overlay over {folder}")
        self._read_only[folder] = os.access(folder, os.W_OK)
        if has_mounts:
            self._cover_each_in(folder)

    def _cover_each_in(self, folder: str) -> None:
        inside = self._paths_in(folder)
        folders = [path for path in inside if os.path.isdir(path) and not os.path.islink(path)]
        for each in folders:
            is_meant = self._has_mounts(each) or any(is_in(place, each) for place in self._own)
            if len(folders) <= _MANY or each in self._mounted or is_meant:
                self._cover(each)
        for path in inside:  # a single file can be a mount, as containers have some
            if path in self._mounted and path not in folders:
                self._read_only[path] = False

    def _paths_in(self, folder: str) -> list[str]:
        """What lies in it; of one that the user may not list (Docker's), what the mounts and the cell's own folders name."""
        try:
            return sorted(entry.path for entry in os.scandir(folder))
        except PermissionError:
            below = {place[len(folder) + 1 :].split("/")[0] for place in (*self._mounted, *self._own)
                     if place.startswith(f"{folder}/")}  # fmt: skip
            return [path for name in sorted(below) if os.access(path := f"{folder}/{name}", os.X_OK)]

    def _has_mounts(self, folder: str) -> bool:
        return any(each.startswith(f"{folder}/") for each in self._mounted)

    def _cover_own(self) -> None:
        """Again, what the overlay above it cannot write to: it would give folders between them to owners that it cannot name."""
        for place, descriptor in self._own.items():
            if place in self._covered or place in self._read_only or place == "/":
                continue
            above = max((each for each in self._covered if is_in(place, each)), key=len, default="")
            if not above and (place in self._mounted or self._has_mounts(place)):
                raise NoView(f"{place} is shared by all processes")
            if above and not (_is_in_user_namespace and _is_foreign(place, above)):
                continue
            if not self._overlay(place, f"/proc/self/fd/{descriptor}"):
                raise NoView(f"Linux lays no overlay over {place}")

    def _prove(self) -> None:
        """Write a file where a cell is likely to, and look whether it reached the disk."""
        for place, real in self._own.items():
            if place in self._read_only or place == "/":
                continue
            name = f".accel-{os.getpid()}-{os.urandom(4).hex()}"
            os.close(os.open(f"{place}/{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            reached = name in os.listdir(f"/proc/self/fd/{real}")
            os.unlink(f"{place}/{name}")
            if reached:
                raise NoView(f"what is written to {place} reaches the disk")

    def _lay(
        self, source: str | None, target: str, kind: str | None, flags: int, options: str | None = None
    ) -> None:
        _mount(source, target, kind, flags, options)
        self._laid.append(target)

    def _overlay(self, folder: str, lower: str) -> bool:
        """Whether it could be laid."""
        self._count += 1
        layers = [f"upper-{self._count}", f"work-{self._count}"]
        for name in layers:
            os.mkdir(name, 0o700, dir_fd=self._layers)
        mode = os.stat(folder).st_mode & (0o7777 if os.access(folder, os.W_OK) else 0o5555)
        os.chmod(layers[0], mode, dir_fd=self._layers)
        upper, work = (f"/proc/self/fd/{self._layers}/{name}" for name in layers)
        options = f"lowerdir={_escaped(lower)},upperdir={upper},workdir={work}"
        options += ",userxattr" if _is_in_user_namespace else ",redirect_dir=on"
        for without_waiting_for_the_disk in (",volatile", ""):  # since Linux 5.10
            try:
                self._lay("overlay", folder, "overlay", 0, options + without_waiting_for_the_disk)
            except OSError:
                continue
            self._covered.append(folder)
            return True
        return False

    def _put_shared_through(self) -> None:
        """Folders that stay as they are, over the overlays that hide them; the private one where none lies over it."""
        places = dict(self._shared)
        if not any(is_in(self._folder, each) for each in self._covered):
            places[self._folder] = self._layers
        for place, descriptor in places.items():
            self._lay(f"/proc/self/fd/{descriptor}", place, None, _BIND | _RECURSIVE)


def _make_read_only(place: str, lay: Callable[[str, str, None, int], None]) -> None:
    """What lies in it directly, and in folders of it that have no mount of their own."""
    found = os.statvfs(place).f_flag
    if found & os.ST_RDONLY:
        return
    if place != "/":
        lay(place, place, None, _BIND | _RECURSIVE)
    kept = found & _KEPT_FLAGS | (_RELATIVE_ATIME[1] if found & _RELATIVE_ATIME[0] else 0)
    _mount(None, place, None, _REMOUNT | _BIND | _READ_ONLY | kept)


def _opened(places: Iterable[str]) -> dict[str, int]:
    found = sorted({os.path.realpath(place) for place in places})
    return {place: os.open(place, os.O_PATH) for place in found if os.path.isdir(place)}


def _is_foreign(place: str, above: str) -> bool:
    """Whether it, or a folder between the two, is of a user or a group that this user namespace does not know."""
    while place != above:
        found = os.stat(place)
        if (found.st_uid, found.st_gid) != (os.getuid(), os.getgid()):
            return True
        place = os.path.dirname(place)
    return False


def _file_system(folder: str) -> int:
    """Its kind, by the number that statfs gives."""
    room = ctypes.create_string_buffer(256)
    _call("statfs", os.fsencode(folder), room)
    return int(struct.unpack_from("l", room)[0])


def _escaped(path: str) -> str:
    """For overlay's own reading of its options."""
    return path.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, options)]
    try:
        _call("mount", words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])
    except OSError as error:
        error.filename = target
        raise


def drop_capabilities(but: int = 0) -> None:
    """The user namespace gave this thread all of them: the cell would be let into files that their owner closed to himself."""
    header = struct.pack("Ii", 0x2008_0522, 0)  # version 3, this thread
    kept = struct.pack("6I", but & 0xFFFF_FFFF, but & 0xFFFF_FFFF, 0, but >> 32, but >> 32, 0)
    _call("capset", header, kept)


def _call(name: str, *arguments: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
