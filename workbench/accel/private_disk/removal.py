"""Remove a folder whose content others made: a cell, or overlayfs."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from typing import Any

_MOST_PASSES = 20  # each goes one unreadable folder deeper


def remove_tree(path: str) -> None:
    """Remove a folder with all that is in it, also where folders in it are closed, as overlayfs and cells leave some."""
    failures: list[str] = []

    def open_up(_function: Any, place: str, _error: Any) -> None:
        failures.append(place)
        for folder in (place, os.path.dirname(place)):
            is_inside = folder == path or folder.startswith(path + os.sep)
            if is_inside and os.path.isdir(folder) and not os.path.islink(folder):
                with contextlib.suppress(OSError):  # somebody else's: it stays
                    os.chmod(folder, 0o700)

    handler: Any = {"onexc": open_up} if sys.version_info >= (3, 12) else {"onerror": open_up}
    for _ in range(_MOST_PASSES):
        failures.clear()
        shutil.rmtree(path, **handler)
        if not failures:
            return
