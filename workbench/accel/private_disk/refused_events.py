"""What Python's interpreter would still do to the user's files after its functions were led away: refused, with their name."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from typing import Any

from accel.errors import AccelError
from accel.private_disk.shadow import Shadow

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Audit events, with the places of their paths and of the descriptors of folders that these are relative to.
_Places = tuple[tuple[int, int | None], ...]
_OF_FILES: dict[str, _Places] = {
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.mkdir": ((0, 2),),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
    "os.setxattr": ((0, None),),
    "os.removexattr": ((0, None),),
    "sqlite3.connect": ((0, None),),
}
_OF_PROGRAMS = ("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.spawn")


class RefusedEvents:
    """An audit hook, which cannot be taken back; with `programs`, the cell may start none either."""

    def __init__(self, asked: str, do: str, *, programs: bool) -> None:
        self._asked, self._do, self._refuses_programs = asked, do, programs

    def watch(self, shadow: Shadow, inside: threading.local) -> None:
        """From now on, except while `inside.is_led`: then it is the shadow that works."""

        def hear(event: str, arguments: tuple[Any, ...]) -> None:
            if self._refuses_programs and event in _OF_PROGRAMS:
                self._programs(event, arguments)
            places = _places(event, arguments)
            if not places or getattr(inside, "is_led", False):
                return
            inside.is_led = True
            try:
                self._files(shadow, event, arguments, places)
            finally:
                inside.is_led = False

        sys.addaudithook(hear)

    def _files(self, shadow: Shadow, event: str, arguments: tuple[Any, ...], places: _Places) -> None:
        for place, relative_to in places:
            path = arguments[place]
            directory = (
                arguments[relative_to] if relative_to is not None and relative_to < len(arguments) else None
            )
            if isinstance(path, int) or path in (":memory:", b":memory:", ""):
                continue
            if isinstance(directory, int) and directory < 0:
                directory = None
            if shadow.real(path, directory, follows=_follows(event, arguments)) is not None:
                raise AccelError(
                    f"{self._asked} runs the cell on copies, and it would change {os.fsdecode(path)!r} ({event})",
                    because=f"that is a file of yours, and {self._asked[0].lower()}{self._asked[1:]} changes nothing of yours",
                    do=self._do,
                )

    def _programs(self, event: str, arguments: tuple[Any, ...]) -> None:
        if _is_of_the_cell():
            raise AccelError(
                f"{self._asked} runs the cell on copies, and it would start the program {arguments[0]!r} ({event})",
                because="this system gives no private view of the disk (see %accel doctor), so what a program writes would "
                "reach your files",
                do=self._do,
            )


def _follows(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether it changes what a link leads to, and not the link."""
    if event == "open":
        return not arguments[2] & os.O_NOFOLLOW
    return event in (
        "os.truncate",
        "os.chmod",
        "os.utime",
        "os.setxattr",
        "os.removexattr",
        "sqlite3.connect",
    )


def _places(event: str, arguments: tuple[Any, ...]) -> _Places:
    """Where the paths are that an event would change."""
    if event != "open":
        return _OF_FILES.get(event, ())
    writes = isinstance(arguments[2], int) and arguments[2] & WRITING
    return ((0, None),) if writes else ()


def _is_of_the_cell() -> bool:
    """Whether the user's own code starts it, and not an installed package, as compilers are started by."""
    installed = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    ours = os.path.dirname(os.path.dirname(__file__))
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        is_standard = name.startswith((installed[0], "<frozen")) and "site-packages" not in name
        if not is_standard and not name.startswith(os.path.dirname(__file__)):
            return not name.startswith((*installed, ours)) and "site-packages" not in name
        frame = frame.f_back
    return False
