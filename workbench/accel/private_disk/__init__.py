"""A process's private view of the disk: its cell reads the user's files, and what it writes goes with the process.

private_disk.py      PrivateDisk: the best of three mechanisms that the system allows, in two steps
namespace_view.py    1. mount namespace and overlays: the kernel leads every write away
mounts.py            what is mounted where, and what of /run is not left alone
landlock.py          2. the kernel refuses writes outside, and Python's functions are led away
led_calls.py         3. Python's functions are led away, and the rest that the interpreter does is refused
shadow.py            which path is led where, for 2 and 3
refused_events.py    the audit hook of 2 and 3
files_seen.py        what lies in a folder, to compare with where the kernel keeps nothing from it
explained.py         what errors of files mean in such a view
probe.py             which of them holds here, asked of a process that tries it
"""

from accel.private_disk.explained import explained, in_words
from accel.private_disk.files_seen import FilesSeen, current_folder
from accel.private_disk.private_disk import Mechanism, PrivateDisk, note_of
from accel.private_disk.probe import DiskPrivacy, disk_privacy

__all__ = [
    "DiskPrivacy",
    "FilesSeen",
    "Mechanism",
    "PrivateDisk",
    "current_folder",
    "disk_privacy",
    "explained",
    "in_words",
    "note_of",
]
