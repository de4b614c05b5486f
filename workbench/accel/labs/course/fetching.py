"""Fetch a data set of the course, for those who ask for it: a try with a time-out, and what to put where when it fails."""

from __future__ import annotations

import socket
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from http.client import HTTPException
from pathlib import Path
from tarfile import TarError
from typing import Any, cast

from accel.errors import AccelError, UnknownName
from accel.labs.datasets import FROM_DISK, MADE_HERE, DatasetName, load_dataset, missing_files
from accel.shown import Shown

TIMEOUT_S = 20.0  # of silence; the download itself may take as long as it takes


@dataclass(frozen=True)
class Fetched(Shown):
    """A data set that is on this machine now: its name, size and hash."""

    name: DatasetName
    folder: str
    identity: str
    was_there: bool

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def fetch(
    name: DatasetName,
    root: Path | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
    download: Callable[[str, Path], None] | None = None,
) -> Fetched:
    """Download a data set of the course with torchvision, unless it is there.

    >>> fetch("fashion_mnist").identity
    'fashion_mnist: 60,000 images of 1×28×28, sha256 2f1c…'

    Args:
        name: "fashion_mnist" or "cifar10".
        root: The folder; None: ./data, where `load_dataset` looks.
        timeout_s: How many seconds of silence to wait for.
        download: Downloads a data set into a folder. None: torchvision does.

    Raises:
        AccelError: It cannot be downloaded; the message says which files belong where.
    """
    folder = Path("data") if root is None else root
    if name in MADE_HERE:
        return Fetched(name, "", load_dataset(name).identity, True)
    if name not in FROM_DISK:
        raise UnknownName("data set", name, [*FROM_DISK, *MADE_HERE])
    was_there = not missing_files(name, folder)
    if not was_there:
        _download(name, folder, timeout_s, download or _by_torchvision)
    try:
        identity = load_dataset(name, root=folder).identity
    except (OSError, RuntimeError, ValueError, EOFError) as error:  # half a file, or another one
        raise AccelError(
            f"Fetching {name}", because=f"its files in {folder} cannot be read ({error})",
            do=f"Delete them, and run accel labs data {name} again.",
        ) from error  # fmt: skip
    return Fetched(name, str(folder), identity, was_there)


def fetch_all() -> Fetched:
    """Fetch every data set that the course downloads, one after the other; gives the last, raises for the first that fails."""
    return [fetch(cast("DatasetName", name)) for name in FROM_DISK][-1]


def _download(
    name: DatasetName, folder: Path, timeout_s: float, download: Callable[[str, Path], None]
) -> None:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(timeout_s)  # torchvision's own requests have none
    try:
        download(name, folder)
    except (
        OSError,
        RuntimeError,
        ValueError,
        EOFError,
        HTTPException,
        TarError,
        zlib.error,
    ) as error:  # no network, a proxy's answer, a wrong checksum
        missing = missing_files(name, folder) or FROM_DISK[name].files
        files = ", ".join(Path(path).name for path in missing)
        parent = (folder / FROM_DISK[name].files[0]).parent.absolute()
        raise AccelError(
            f"Fetching {name}", because=f"it cannot be downloaded here ({error})",
            do=f"On a machine with a network, run accel labs data {name}; then copy these files into {parent}: {files}.",
        ) from error  # fmt: skip
    finally:
        socket.setdefaulttimeout(before)


def _by_torchvision(name: str, folder: Path) -> None:
    from torchvision import datasets

    classes = {"fashion_mnist": datasets.FashionMNIST, "cifar10": datasets.CIFAR10}
    classes[name](str(folder), download=True)
