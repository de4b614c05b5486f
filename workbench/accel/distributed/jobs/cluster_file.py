"""The clusters that accel.toml describes: whose files are read, and what stands in them."""

from __future__ import annotations

import difflib
import os
import stat
from pathlib import Path
from typing import Any

import msgspec

from accel.distributed.jobs.cluster import Cluster, hosts_of
from accel.errors import AccelError, UnknownName, shortened

FILE = "accel.toml"


def clusters(start: Path | None = None) -> dict[str, Cluster]:
    """Those that accel.toml describes: the project's, from the notebook's folder up to its .git, before the user's own.

    >>> clusters()["mycluster"].launcher
    'slurm'

    Raises AccelError for a file that cannot be read.
    """
    found: dict[str, Cluster] = {}
    for file in _files((start or Path.cwd()).resolve()):
        found = _read(file) | found
    return found


def cluster_named(name: str) -> Cluster:
    """The one of that name; raises UnknownName with the nearest right word."""
    known = clusters()
    if name not in known:
        if not known:
            raise AccelError(
                shortened(f"--on {name}", 60), because=f"no {FILE} here or in your folder describes a cluster",
                do=f"Write one: [clusters.{shortened(name, 40)}] with launcher = \"slurm\", nodes = 2 and so on.",
            )  # fmt: skip
        raise UnknownName("cluster", name, known)
    return known[name]


def _files(start: Path) -> list[Path]:
    """Up to the project's own folder, or to the home of the user: what lies above is not theirs."""
    own = Path("~/.config/accel").expanduser() / FILE
    places: list[Path] = []
    for folder in (start, *start.parents):
        places.append(folder)
        if (folder / ".git").exists() or folder == Path.home():
            break
    else:
        places = [start]
    return [file for file in (*(folder / FILE for folder in places), own) if file.is_file()]


def _check_it_is_ours(file: Path) -> None:
    """What such a file says is run: lines of shell, programs."""
    status = file.stat()
    if status.st_uid not in (os.getuid(), 0) or stat.S_IMODE(status.st_mode) & 0o022:
        raise AccelError(
            f"Reading {file}", because="others than you may write there, and its lines run as you",
            do=f"If you trust it: chmod go-w {file}, or copy it to ~/.config/accel.",
        )  # fmt: skip


def _read(file: Path) -> dict[str, Cluster]:
    _check_it_is_ours(file)
    try:
        found: dict[str, Any] = msgspec.toml.decode(file.read_bytes())
        described = found.get("clusters", {})
        for name, values in described.items():
            _check_words(file, name, values)
        return {
            str(name): msgspec.convert(_with_hosts(values), Cluster) for name, values in described.items()
        }
    except (OSError, msgspec.MsgspecError, AttributeError, ValueError) as error:
        raise AccelError(
            f"Reading {file}", because=str(error), do="docs/how-to/cluster.md lists what a cluster may have."
        ) from None


def _check_words(file: Path, name: str, values: dict[str, Any]) -> None:
    known = Cluster.__struct_fields__
    for word in values:
        if word not in known:
            near = difflib.get_close_matches(word, known, 1)
            raise AccelError(
                f"Reading {file}", because=f"[clusters.{name}] has {word!r}, which is no setting of a cluster",
                do=f"Did you mean {near[0]}?" if near else f"There are: {', '.join(known)}.",
            )  # fmt: skip


def _with_hosts(values: dict[str, Any]) -> dict[str, Any]:
    hosts = values.get("hosts")
    return values | {"hosts": hosts_of(hosts)} if isinstance(hosts, str) else values
