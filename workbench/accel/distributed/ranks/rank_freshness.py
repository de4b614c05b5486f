"""Whether a rank that has run a cell is as a fresh one would be: else the next run gets a fresh one."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from accel.distributed.cells.code_in_place import CodeInPlace, is_installed
from accel.distributed.ranks.process_state import process_state


class Freshness:
    """Looks after each run, while the rank has nothing to do.

    >>> freshness = Freshness()
    >>> freshness.look()                # after a run
    >>> freshness.why_not_again()       # before the next
    'helpers.py has changed since it was imported'
    """

    def __init__(self) -> None:
        self._code, self._state = CodeInPlace(), process_state()
        self._files: dict[str, tuple[int, int] | None] = {}
        self._began_ns = time.time_ns()
        self._changed = ""

    def look(self) -> None:
        """Compare with what was before the run, and note the files of the user's that it imported."""
        state = process_state()
        different = next((name for name, value in state.items() if value != self._state[name]), "")
        found = self._code.changed()
        self._changed = self._changed or found or (different and f"a cell has changed its {different}")
        for file in _files_of_user() - self._files.keys():
            self._files[file] = _mark(file)
            if (self._files[file] or (time.time_ns(), 0))[0] > self._began_ns:
                self._files[file] = None  # it may have changed between its import and now
        self._began_ns = time.time_ns()

    def why_not_again(self) -> str:
        """Why this process must not run another cell; empty where it may."""
        for file, mark in self._files.items():
            if mark is None or mark != _mark(file):
                return f"{os.path.basename(file)} has changed since it was imported"
        return self._changed


def _files_of_user() -> set[str]:
    """Of the modules that are imported, those that belong to no installed package."""
    files: set[Any] = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    own = {file for file in files if isinstance(file, str) and not is_installed(file)}
    return {
        file for file in own if os.path.isabs(file) and os.path.exists(file)
    }  # torch.ops names one that is none


def _mark(file: str) -> tuple[int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
