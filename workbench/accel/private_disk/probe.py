"""Which mechanism keeps a trial's writes from the user's files on this system: a process tries them and says so.

python -m accel.private_disk.probe FOLDER
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from typing import get_args

from accel.private_disk.private_disk import VARIABLE, Mechanism, PrivateDisk

_IN_WORDS: dict[Mechanism, str] = {
    "namespace": "a private view of the disk (mount namespace and overlays): whatever writes, nothing reaches your files",
    "landlock": "Landlock: writes outside of a private folder are refused, and Python's own are led there",
    "python": "Python's own writes are led to a private folder; C++ code that opens files by itself is not held",
}


@dataclass(frozen=True)
class DiskPrivacy:
    """The mechanism, None where even trying failed, and why it is no better one."""

    mechanism: Mechanism | None
    reason: str = ""

    def __str__(self) -> str:
        words = _IN_WORDS[self.mechanism] if self.mechanism else "none"
        return f"{words} ({self.reason})" if self.reason else words


def disk_privacy() -> DiskPrivacy:
    """As it is for trials of this process; the answer is remembered.

    >>> disk_privacy().mechanism
    'namespace'
    """
    return _asked(os.environ.get(VARIABLE, ""))


@cache
def _asked(_wanted: str) -> DiskPrivacy:
    from accel.private_disk.removal import remove_tree

    folder = tempfile.mkdtemp(prefix="accel-probe-")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "accel.private_disk.probe", folder],
            capture_output=True,
            text=True,
            timeout=60,
        )
        answer = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return DiskPrivacy(None, f"it could not be tried: {error}")
    finally:
        remove_tree(folder)
    return DiskPrivacy(
        answer["mechanism"] if answer["mechanism"] in get_args(Mechanism) else None, answer["reason"]
    )


def _main(folder: str) -> None:
    from accel.errors import AccelError

    answer: tuple[Mechanism | None, str]
    try:
        disk = PrivateDisk(folder)
        answer = disk.hold(), disk.why_no_better
    except AccelError as error:
        answer = None, error.because
    print(json.dumps({"mechanism": answer[0], "reason": answer[1]}))


if __name__ == "__main__":
    _main(sys.argv[1])
