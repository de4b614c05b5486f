"""A notebook's training as one program that needs no accel."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel.exporting.cluster_scripts import PROGRAM
from accel.exporting.saving import save_new
from accel.shown import Shown


@dataclass(frozen=True)
class Program(Shown):
    """A program that trains in a fresh process as the notebook did, with what is kept written in.

    >>> accel.export("script").save("train.py")
    """

    code: str
    notes: tuple[str, ...] = ()

    def save(self, path: str | Path = PROGRAM) -> Path:
        """Write it to a new file."""
        return save_new(path, self.code)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {"code": self.code, "notes": list(self.notes)}
