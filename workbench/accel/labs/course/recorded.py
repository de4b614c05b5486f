"""Results of hardware that a reader may lack: files that come with accel, labelled with what they were recorded on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel.shown import Shown

if TYPE_CHECKING:
    from accel.labs.course.chapter import RecordedForm

FOLDER = Path(__file__).parent.parent / "recorded"


@dataclass(frozen=True)
class Recorded(Shown):
    """A recorded result: `text` is the file as it is, `values()` what JSON holds.

    >>> accel.topology(text=accel.lab(10).recorded("eight-gpus").text)
    """

    name: str
    path: Path
    recorded_on: str

    @property
    def text(self) -> str:
        """What the file holds."""
        return self.path.read_text(encoding="utf-8")

    def values(self) -> Any:
        """The same, read as JSON."""
        return json.loads(self.text)


def recorded(form: RecordedForm) -> Recorded:
    """The result that a chapter's file names."""
    return Recorded(form.id, FOLDER / form.file, form.recorded_on)
