"""Checkpoints on disk: written whole or not at all, the last few kept, and only those that read back well are used."""

from __future__ import annotations

import os
import threading
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from accel.errors import AccelError, first_line

FORMAT = "accel checkpoint 1"
_FINISHED = "finished"
_FIELDS = {
    "cell": str,
    "batch": str,
    "plan": str,
    "step": int,
    "world_size": int,
    "position": list,
    "drives": list,
    "ranks": list,
    "beginning": dict,
}
_OF_A_RANK = {"entry": dict, "generators": dict, "now": dict, "variables": dict}


class CheckpointFolder:
    """A folder of `step-*.pt`; each can be read with `torch.load(path, weights_only=True)`.

    >>> folder = CheckpointFolder(Path("checkpoints"), keeps=2)
    >>> folder.wait(); folder.write({"step": 40, ...}); folder.wait()
    >>> folder.newest().contents["step"]
    40

    `write` returns at once: a thread writes. A file gets its name when it is complete and on the disk.
    """

    def __init__(self, path: Path, *, keeps: int = 2) -> None:
        self.path, self._keeps = path, keeps
        self._writing: threading.Thread | None = None
        self._trouble = ""  # why the last could not be written
        self._of_finished_run = self.files if (path / _FINISHED).exists() else []

    @property
    def files(self) -> list[Path]:
        """All checkpoints, the oldest first."""
        return sorted(self.path.glob("step-*.pt"))

    def newest(self, notes: list[str]) -> dict[str, Any] | None:
        """The newest that reads back well; None where there is none, or where the run that wrote them came to its end.

        >>> contents = folder.newest(notes)     # notes: what was passed over, and why
        """
        files = [path for path in self.files if path not in self._of_finished_run]
        damaged: list[str] = []
        for path in reversed(files):
            try:
                contents = _read(path)
            except ValueError as error:
                damaged.append(f"{path.name} {error}")
                continue
            notes += [f"{why}: the checkpoint before it was used." for why in damaged]
            return contents
        if damaged:
            raise AccelError(
                f"Going on from the checkpoints in {self.path}",
                because=f"none of them can be used: {'; '.join(damaged)}",
                do="Name another folder, or empty this one to train from the beginning.",
            )
        return None

    def write(self, contents: dict[str, Any]) -> None:
        """Write it in the background, after `wait`. `contents` must not change any more."""
        self._writing = threading.Thread(target=self._write, args=(contents,), name="accel-checkpoint")
        self._writing.start()

    def wait(self) -> None:
        """Wait until what was begun is on the disk; raises AccelError where it could not be written."""
        if self._writing is not None:
            self._writing.join()
            self._writing = None
        if self._trouble:
            trouble, self._trouble = self._trouble, ""
            raise AccelError(
                f"--checkpoint {self.path}",
                because=f"a checkpoint could not be written: {trouble}",
                do="Make room there or name another folder; the checkpoints before it are complete.",
            )

    def finish(self) -> None:
        """The run came to its end, and `wait` was called: the next one begins anew, and its first checkpoint takes the place
        of these. Raises AccelError where that cannot be written down."""
        if not self.files:
            return
        try:
            with _created(self.path / _FINISHED) as file:
                file.write(b"The run that wrote these checkpoints came to its end.\n")
        except OSError as error:
            raise AccelError(
                f"--checkpoint {self.path}",
                because=f"that this run came to its end could not be written there: {error}",
                do="Empty the folder: else the next run of this cell goes on from these checkpoints.",
            ) from error

    def _write(self, contents: dict[str, Any]) -> None:
        import torch

        path = self.path / f"step-{contents['step']:09d}.pt"
        partial = self.path / f".{path.name}.partial"
        try:
            _check_owner(self.path)
            with _created(partial) as file:
                torch.save({"format": FORMAT, **contents}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
            _to_disk(self.path)
            self._remove_old(path)
        except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
            self._trouble = getattr(error, "strerror", None) or first_line(error)
            with suppress(OSError):  # where not even that can be done, the next one will say so
                partial.unlink(missing_ok=True)

    def _remove_old(self, new: Path) -> None:
        for path in self._of_finished_run:
            if path != new:
                path.unlink(missing_ok=True)
        if self._of_finished_run:
            self._of_finished_run = []
        (self.path / _FINISHED).unlink(missing_ok=True)
        for path in self.files[: -self._keeps]:
            path.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    """A checkpoint, every byte checked; raises ValueError that says what is wrong with the file."""
    import pickle

    import torch

    try:
        with zipfile.ZipFile(path) as file:
            damaged = file.testzip()
        if damaged is not None:
            raise ValueError("is damaged (a checksum is wrong)")
        contents = torch.load(path, map_location="cpu", weights_only=True)
    except zipfile.BadZipFile:
        raise ValueError("is damaged or no checkpoint (it is not complete)") from None
    except (OSError, RuntimeError, pickle.UnpicklingError) as error:
        raise ValueError(f"cannot be read ({first_line(error)})") from None
    if not isinstance(contents, dict) or contents.get("format") != FORMAT or not _is_ours(contents):
        raise ValueError("was not written by %%accel ddp")
    return contents


def _is_ours(contents: dict[str, Any]) -> bool:
    """Whether all that a way back asks for is there, and of its kind."""
    ranks, size = contents.get("ranks"), contents.get("world_size")
    return (
        _has(contents, _FIELDS)
        and contents["step"] >= 0
        and isinstance(ranks, list)
        and len(ranks) == size
        and all(isinstance(rank, dict) and _has(rank, _OF_A_RANK) for rank in ranks)
    )


def _has(record: Mapping[str, Any], fields: Mapping[str, type]) -> bool:
    return all(type(record.get(name)) is kind for name, kind in fields.items())


def _created(path: Path) -> BinaryIO:
    """The file, new: what lies there under its name, a link that somebody prepared, say, is removed and not followed."""
    path.unlink(missing_ok=True)
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666), "wb")


def _check_owner(folder: Path) -> None:
    """Who owns the folder can put other files into the place of these."""
    owner = folder.stat().st_uid
    if owner not in (os.getuid(), 0) and os.getuid():
        raise PermissionError(f"{folder} belongs to another user; make a folder of your own in it")


def _to_disk(folder: Path) -> None:
    """The name too is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
