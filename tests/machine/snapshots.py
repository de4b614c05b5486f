"""Texts that a user sees, kept in tests/machine/snapshots. After a change that is wanted:

REWRITE_SNAPSHOTS=1 python -m pytest tests/machine

writes them anew; `git diff` then shows what users will see differently.
"""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).parent / "snapshots"


def check_snapshot(name: str, text: str) -> None:
    """Compare with the file of that name ("topology/course.txt"); write it where that is asked for."""
    path, text = HERE / name, text.rstrip("\n") + "\n"
    if os.environ.get("REWRITE_SNAPSHOTS") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.is_file(), (
        f"there is no snapshot {name}: run REWRITE_SNAPSHOTS=1 python -m pytest tests/machine"
    )
    assert text == path.read_text(), f"{name} reads differently: see tests/machine/snapshots.py"
