"""The notebooks of the course: found, and copied into a student's folder; a copy that is there is never written over."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from accel.errors import AccelError, UnknownName
from accel.labs.course.chapter import chapter_numbers
from accel.shown import Shown

INSTALLED = Path(__file__).parent.parent / "notebooks"
CHECKOUT = Path(__file__).parents[4] / "notebooks" / "labs"


@dataclass(frozen=True)
class StartedLab(Shown):
    """A lab in the student's folder; `was_there`: a copy of theirs was there, and was left as it is."""

    chapter: int
    title: str
    path: Path
    was_there: bool
    is_changed: bool

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "chapter": self.chapter, "title": self.title, "path": str(self.path), "was_there": self.was_there,
            "is_changed": self.is_changed,
        }  # fmt: skip


def notebook_of(chapter: int) -> Path:
    """The notebook of a chapter as it comes with accel; raises UnknownName for a chapter that has none."""
    folder = INSTALLED if INSTALLED.is_dir() else CHECKOUT
    found = sorted(folder.glob(f"{chapter:02}_*.ipynb"))
    if not found:
        raise UnknownName("lab", str(chapter), [str(each) for each in chapter_numbers()])
    return found[0]


def cells_of(path: Path) -> list[dict[str, Any]]:
    """The cells of a notebook, each with its source as one text; raises AccelError for a file that is none."""
    try:
        cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return [cell | {"source": "".join(cell["source"])} for cell in cells]
    except OSError as error:
        raise AccelError(
            f"The notebook {path}", because=f"it cannot be read ({error.strerror})", do="Name another file."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise AccelError(
            f"The notebook {path}", because="it is no notebook", do="Name an .ipynb file."
        ) from None


def headings_of(path: Path) -> dict[str, str]:
    """The headings of a notebook by the word that a quiz knows them by: {"reading-a-profile": "Reading a profile"}."""
    texts = [cell["source"] for cell in cells_of(path) if cell["cell_type"] == "markdown"]
    found = re.findall(r"^#{2,4} +(.+?) *$", "\n".join(texts), re.MULTILINE)
    plain = {heading: re.sub("['’]", "", heading.lower()) for heading in found}
    return {re.sub(r"[^a-z0-9]+", "-", words).strip("-"): heading for heading, words in plain.items()}


def start_lab(chapter: int, folder: Path | None = None) -> StartedLab:
    """Copy a lab into a folder, unless it is there.

    >>> start_lab(3).path
    PosixPath('03_compiling.ipynb')
    """
    from accel.labs.course.chapter import chapter_of

    source = notebook_of(chapter)
    target = (folder or Path()) / source.name
    as_shipped = source.read_bytes()
    was_there = target.exists()
    try:
        if not was_there:
            with target.open("xb") as file:  # never over one that another process made just now
                file.write(as_shipped)
        is_changed = target.read_bytes() != as_shipped
    except OSError as error:
        raise AccelError(
            f"The lab {chapter}",
            because=f"{target} cannot be written ({error.strerror})",
            do="Start it in another folder.",
        ) from None
    return StartedLab(chapter, chapter_of(chapter).title, target, was_there, is_changed)


def open_in_jupyter(path: Path) -> None:
    """Become JupyterLab with this notebook; returns where JupyterLab is not installed."""
    if find_spec("jupyterlab") is None:
        return
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", str(path)])
