"""Results of hardware that a reader may lack: files that come with accel, labelled with what they were recorded on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel.labs.course.chapter import RECORDED
from accel.shown import Shown

if TYPE_CHECKING:
    from accel.labs.course.chapter import RecordedForm


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


def recorded(form: RecordedForm, folder: Path | None = None) -> Recorded:
    """The result that a chapter's file names; of a lab of one's own, a file next to the chapter's.

    >>> recorded(RecordedForm("mine", "mine.json", "my cluster"), Path("labs_of_mine")).path
    PosixPath('labs_of_mine/mine.json')
    """
    return Recorded(form.id, (RECORDED if folder is None else folder) / form.file, form.recorded_on)
