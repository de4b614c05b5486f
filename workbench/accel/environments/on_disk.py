"""The folder of all environments: one process at a time changes it, and what a killed one left goes first."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from accel.environments.environment import DESCRIPTION, base, environments, place
from accel.environments.wanted import find
from accel.errors import AccelError

_CACHE = ".cache"  # beside them, on the same disk: their files are hard links into it
_UNFINISHED = ".unfinished"  # names of those that are being made or removed
_LOCK = ".lock"
_LOOK_S = 0.5
_SAY_EVERY = 4  # looks
Say = Callable[[str], None]


@contextmanager
def changing(asked: str, say: Say = lambda line: None) -> Iterator[Path]:
    """While entered, nobody else makes or removes an environment; what was left unfinished is gone. Gives the folder.

    >>> with changing("%accel env create intel") as folder: ...

    The lock goes with its process, however that ends. What the system refuses is an AccelError.
    """
    folder = place()
    try:
        (folder / _UNFINISHED).mkdir(parents=True, exist_ok=True)
        with open(base() / _LOCK, "a") as lock:
            _wait_for(lock.fileno(), say)
            _sweep(folder)
            yield folder
    except OSError as error:
        raise AccelError(
            asked,
            because=f"the system refuses: {error.strerror or error}",
            do=f"See to {folder}, or name another with ACCEL_ENVIRONMENTS.",
        ) from error


def cache() -> Path:
    """uv's cache for them."""
    return base() / _CACHE


def begin(folder: Path) -> None:
    """Note that this one is not finished: if this process is killed, the next one takes it away."""
    (folder.parent / _UNFINISHED / folder.name).touch()


def finish(folder: Path) -> None:
    """It is finished, or gone."""
    (folder.parent / _UNFINISHED / folder.name).unlink(missing_ok=True)


def take_away(folder: Path) -> None:
    """A folder with all in it; its description first, so that it never counts as finished."""
    begin(folder)
    (folder / DESCRIPTION).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        finish(folder)


def remove(name: str, say: Say = lambda line: None) -> None:
    """Remove one, or what a killed process left of one; what no other shares with it goes from the cache too.

    >>> remove("intel")

    Another process that makes it is waited for. Raises UnknownName.
    """
    was_marked = (
        name in unfinished()
    )  # left by a process that was killed, or being made: only the lock tells which
    with changing(f"%accel env remove {name}", say) as folder:
        if any(each.name == name for each in environments()) or not was_marked:
            take_away(folder / find(name).name)
        free_cache()


def unfinished() -> tuple[str, ...]:
    """The names of those that are being made, or that a killed process left."""
    known = {each.name for each in environments()}
    return tuple(sorted(mark.name for mark in (place() / _UNFINISHED).glob("*") if mark.name not in known))


def is_being_changed() -> bool:
    """Whether a process makes or removes an environment just now."""
    try:
        with open(base() / _LOCK) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is none yet
        return False
    return False


def free_cache() -> None:
    """Remove unpacked packages that no environment has a file of any more, and what uv notes of them: it would look for them."""
    for package in cache().glob("archive-v*/*"):
        if not any(_is_linked(file) for file in package.rglob("*")):
            shutil.rmtree(package, ignore_errors=True)
    for link in [each for each in cache().glob("wheels-v*/**/*") if each.is_symlink() and not each.exists()]:
        for note in [each for each in link.parent.iterdir() if each.name.startswith(link.name)]:
            note.unlink(missing_ok=True)


def _is_linked(file: Path) -> bool:
    with contextlib.suppress(OSError):
        return file.is_file() and file.stat().st_nlink > 1
    return False


def _sweep(folder: Path) -> None:
    """What a killed process left."""
    for mark in (folder / _UNFINISHED).iterdir():
        left = folder / mark.name
        (finish if (left / DESCRIPTION).exists() else take_away)(left)
    for partial in cache().glob(".tmp*"):
        shutil.rmtree(partial, ignore_errors=True)


def _wait_for(lock: int, say: Say) -> None:
    looked = 0
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if looked % _SAY_EVERY == 0:
                say(
                    f"another process makes or removes an environment: waiting for it, {looked * _LOOK_S:.0f} s"
                )
            looked += 1
            time.sleep(_LOOK_S)
        else:
            return
