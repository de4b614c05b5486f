"""What is mounted where, and which disks lie in folders that are otherwise left alone (`/run/media/…`)."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping

_ESCAPED = re.compile(rb"\\([0-7]{3})")
# Kinds of file systems on which nobody keeps a project: they are in memory, or show what the kernel or a program knows.
_NO_DISKS = re.compile(
    "autofs|binfmt_misc|bpf|cgroup2?|configfs|debugfs|devpts|devtmpfs|efivarfs|fuse.(gvfsd-fuse|lxcfs|portal)|fusectl|hugetlbfs"
    "|mqueue|nsfs|overlay|proc|pstore|ramfs|rpc_pipefs|securityfs|squashfs|sysfs|tmpfs|tracefs"
)


def mount_points() -> dict[str, str]:
    """Where something is mounted, as this process sees it, and the kind of its file system; empty where Linux does not say."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            return dict(map(_point, file))
    except OSError:
        return {}


def _point(line: bytes) -> tuple[str, str]:
    """
    >>> _point(rb"36 35 98:0 / /media/Donn\\303\\251es\\040b rw - ext4 /dev/sdb1 rw")
    ('/media/Données b', 'ext4')
    """
    words = line.split()
    place = _ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), words[4])
    return os.fsdecode(place), words[words.index(b"-") + 1].decode()


def disks_in_run(mounted: Mapping[str, str]) -> list[str]:
    """Mount points below /run that a user may keep files on, as desktops mount disks there."""
    return sorted(
        place
        for place, kind in mounted.items()
        if place.startswith("/run/") and not _NO_DISKS.fullmatch(kind)
    )


def without(folders: Iterable[str], private: Collection[str]) -> list[str]:
    """The folders, but nothing of the private places in them: of a folder that holds one, what lies in it.

    >>> without(["/dev", "/run"], ["/run/media/me"])
    ['/dev', '/run/lock', …]
    """
    kept: list[str] = []
    for folder in folders:
        if not any(is_in(place, folder) for place in private):
            kept.append(folder)
        elif folder not in private and os.path.isdir(folder):
            kept += without(sorted(entry.path for entry in os.scandir(folder)), private)
    return kept


def is_in(place: str, folder: str) -> bool:
    """Whether it is this folder or below it; both are real paths."""
    return place == folder or place.startswith(folder.rstrip("/") + "/")
