"""Take the best private view of the disk that this system gives a process, and say which it is."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from accel.errors import AccelError, UnknownName
from accel.private_disk import landlock, namespace_view
from accel.private_disk.mounts import disks_in_run, is_in, mount_points, without
from accel.private_disk.shadow import Shadow

Mechanism = Literal["namespace", "landlock", "python"]
VARIABLE = "ACCEL_PRIVATE_DISK"  # takes one of them and no other
_held: list[Mechanism] = []  # in this process


def mechanism_here() -> Mechanism | None:
    """What keeps this process's writes from the user's files; None where nothing does, as in the notebook itself."""
    return _held[0] if _held else None


_KEPT = ("/dev", "/proc", "/run")


def note_of(mechanism: str | None, folder: str) -> str:
    """What a user whose notebook lies in `folder` is to know; empty where nothing that a cell writes reaches the user's files."""
    if mechanism == "landlock" and is_in(os.path.realpath(folder), "/dev"):
        return (
            "This notebook's folder lies in shared memory, which a trial shares here: files that C++ code and programs of "
            "the cell write there are your own (%accel doctor says why)."
        )
    if mechanism != "python":
        return ""
    return (
        "This system gives no private view of the disk: files that C++ code of the cell writes are your own "
        "(%accel doctor says why)."
    )


@dataclass
class PrivateDisk:
    """In a process of ours that will run a cell.

    >>> disk = PrivateDisk(folder)            # as it starts: while it has one thread, a user namespace can be had
    >>> disk.enter("A trial", do="…")         # when the cell is about to come, and the process is where it will run
    'namespace'

    The folder belongs to the kernel, which removes it when the process has ended.
    """

    folder: str
    shared: Sequence[str] = ()
    mechanism: Mechanism | None = None  # once entered
    why_no_better: str = ""

    def __post_init__(self) -> None:
        self._wanted = os.environ.get(VARIABLE, "")
        if self._wanted and self._wanted not in get_args(Mechanism):
            raise UnknownName(f"value of {VARIABLE}", self._wanted, get_args(Mechanism))
        self._has_namespace = False
        self._led: Shadow | None = None
        if self._may_be("namespace"):
            try:
                namespace_view.begin()
                self._has_namespace = True
            except namespace_view.NoView as reason:
                self._is_not("namespace", str(reason))

    def enter(self, asked: str, do: str, *, shared: Iterable[str] = ()) -> Mechanism:
        """From now on the view is private; once. What is `shared` stays the user's, as caches do."""
        if self.mechanism is None:
            self.mechanism = self.hold(shared)
            _held.append(self.mechanism)
            if self._led is not None:
                self._lead(self._led, asked, do)
        return self.mechanism

    def hold(self, shared: Iterable[str] = ()) -> Mechanism:
        """The part that the system does; Python's own functions are not led anywhere yet."""
        here = os.path.realpath(os.getcwd())
        places = [*_caches(), *self.shared, *shared]
        shared = [place for place in places if not is_in(here, os.path.realpath(place))]
        if self._has_namespace:
            try:
                self._enter_namespace(shared)
                return "namespace"
            except namespace_view.NoView as reason:
                self._is_not("namespace", str(reason))
        self._take_temporary_files_along()
        kept = [*without(_KEPT, [*disks_in_run(mount_points()), *_private_in_run(here)]), *shared]
        self._led = Shadow(self.folder, left_alone=kept, own=[here] if is_in(here, "/dev") else [])
        if self._may_be("landlock"):
            try:
                landlock.refuse_writes_outside([self.folder, *kept])
                return "landlock"
            except landlock.NoLandlock as reason:
                self._is_not("landlock", str(reason))
        return "python"

    def _enter_namespace(self, shared: list[str]) -> None:
        temporary = [tempfile.gettempdir(), "/tmp", "/var/tmp"]
        own = [os.getcwd(), os.path.expanduser("~"), *filter(_is_covered, temporary)]
        read_only = namespace_view.enter(self.folder, shared=shared, own=own)
        if near := set(read_only) & set(map(os.path.realpath, own)):  # where a cell is likely to write
            kept = [
                place for place in shared if not any(is_in(each, os.path.realpath(place)) for each in near)
            ]
            self._led = Shadow(self.folder, left_alone=kept, only=near)
        if os.path.realpath(temporary[0]) in near:  # a mount below /tmp: programs are led nowhere
            self._take_temporary_files_along()

    def _lead(self, shadow: Shadow, asked: str, do: str) -> None:
        from accel.private_disk.led_calls import LedCalls
        from accel.private_disk.refused_events import RefusedEvents

        LedCalls(shadow).install(RefusedEvents(asked, do, programs=self.mechanism == "python"))

    def _take_temporary_files_along(self) -> None:
        """Compilers and loaders write there; a project may lie below the system's own temporary folder."""
        tempfile.tempdir = os.environ["TMPDIR"] = os.path.join(self.folder, "temporary")
        os.makedirs(tempfile.tempdir, exist_ok=True)

    def _may_be(self, mechanism: Mechanism) -> bool:
        return self._wanted in ("", mechanism)

    def _is_not(self, mechanism: Mechanism, reason: str) -> None:
        if self._wanted == mechanism:
            raise AccelError(
                f"{VARIABLE}={mechanism}",
                because=reason,
                do=f"Unset {VARIABLE}: the best that works is taken.",
            )
        self.why_no_better = "; ".join(filter(None, [self.why_no_better, reason]))


def _is_covered(temporary: str) -> bool:
    """Memory is shared (`TMPDIR=/dev/shm`)."""
    return not any(is_in(os.path.realpath(temporary), each) for each in namespace_view.NOT_COVERED)


def _private_in_run(here: str) -> list[str]:
    return [here] if is_in(here, "/run") else []


def _caches() -> list[str]:
    """Folders of caches, which stay shared: a trial does not compile again what was compiled, nor download it."""
    home = os.path.expanduser("~")
    places = [os.path.join(home, name) for name in (".cache", ".triton", ".nv", ".config/matplotlib")]
    places += filter(None, map(os.environ.get, ("XDG_CACHE_HOME", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH")))
    places.append(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
    inductor = os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", _inductor_cache())  # as torch itself sets it
    with contextlib.suppress(OSError):
        os.makedirs(inductor, mode=0o700, exist_ok=True)
    return [place for place in [*places, inductor] if os.path.isdir(place)]


def _inductor_cache() -> str:
    """Where torch puts it, by the same rule."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in some containers
        user = str(os.getuid())
    return os.path.join(tempfile.gettempdir(), "torchinductor_" + re.sub(r'[\\/:*?"<>|]', "_", user))
