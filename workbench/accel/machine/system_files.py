"""Small files that the kernel writes, below any root: what is missing or damaged reads as unknown, and never raises."""

from __future__ import annotations

import re
from pathlib import Path

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def text_of(path: Path) -> str:
    """The text of a file without the space around it; "" where there is none to read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:  # missing in virtual machines and containers, not ours to read, or its device is offline
        return ""


def number_of(path: Path) -> int | None:
    """The number in a file; None where there is none, and for -1, by which the kernel says that it does not know."""
    return number_in(text_of(path))


def number_in(text: str) -> int | None:
    """A number of at most 20 digits (the kernel's are of 64 bits), None for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 20 else None


def size_in(text: str) -> int:
    """Bytes, as the kernel writes the sizes of caches; 0 where it writes none.

    >>> size_in("1024K")
    1048576
    """
    match = re.fullmatch(r"([0-9]{1,15})([KMG]?)", text)
    return int(match.group(1)) * _UNITS[match.group(2)] if match else 0


def size_text(size_bytes: int) -> str:
    """Bytes of a cache or page in the largest unit of which they are one or more.

    >>> size_text(1280 * 2**10)
    '1.25 MiB'
    """
    units = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
    name, unit = next((pair for pair in units if size_bytes >= pair[1]), ("bytes", 1))
    return f"{size_bytes / unit:g} {name}"


def numbered(folder: Path, prefix: str) -> list[tuple[int, Path]]:
    """(number, path) of everything in a folder that is called `prefix` and a number, by number.

    >>> numbered(Path("/sys/devices/system/node"), "node")
    [(0, PosixPath('/sys/devices/system/node/node0'))]
    """
    found = []
    for path in folder.glob(f"{prefix}[0-9]*"):
        number = number_in(path.name[len(prefix) :])
        if number is not None:
            found.append((number, path))
    return sorted(found)


def kilobytes_in(listing: str, name: str) -> int | None:
    """The bytes of a line such as "MemTotal:  24684096 kB" of a longer text; None where it has no such line."""
    match = re.search(rf"(?:^|\s){re.escape(name)}:\s+([0-9]{{1,15}}) kB", listing)
    return int(match.group(1)) * 2**10 if match else None
