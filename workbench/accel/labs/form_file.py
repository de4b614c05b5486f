"""Files of the course in YAML: read into the class that is their form, with what is wrong named by entry and field."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from accel.errors import AccelError

Form = TypeVar("Form")
_ENTRY = re.compile(r"\$\.(\w+)\[(\d+)\]")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def read_form(path: Path, form: type[Form], *, what: str, described_in: str) -> Form:
    """Read a file of that form; raises AccelError that names the first mistake.

    >>> read_form(Path("05.yaml"), QuizFile, what="quiz", described_in="docs/how-to/teach.md").chapter
    5

    Args:
        path: The file.
        form: The msgspec class that says what it holds.
        what: The word for such a file.
        described_in: The page that explains the form.
    """
    try:
        found: Form = _decoded(path, form, path.stat().st_mtime_ns)  # type: ignore[arg-type]
        return found
    except OSError as error:
        raise AccelError(
            f"The {what} {path}", because=f"it cannot be read ({error.strerror})", do="Name another file."
        ) from None
    except msgspec.DecodeError as error:  # no YAML, or YAML of another form
        raise wrong_form(path, _place(str(error)), what=what, described_in=described_in) from None


@lru_cache(maxsize=64)
def _decoded(path: Path, form: type[Any], changed_ns: int) -> Any:
    """What a file holds, as long as it was not changed: to grade a class each file is read once, not once a student."""
    return msgspec.yaml.decode(path.read_bytes(), type=form)


def wrong_form(path: Path, problem: str, *, what: str, described_in: str) -> AccelError:
    """The error for a file that says something that it cannot."""
    return AccelError(f"The {what} {path}", because=problem, do=f"{described_in} has the form.")


def is_name(name: str) -> bool:
    """Whether it is made of lower-case words with dashes, as all names in these files are."""
    return bool(_NAME.fullmatch(name))


def _place(message: str) -> str:
    """msgspec's message with entries counted as a reader counts: `$.questions[3]` is question 4."""
    said = _ENTRY.sub(lambda found: f"{found[1].removesuffix('s')} {int(found[2]) + 1}", message)
    return re.sub(r"\.(\w+)\[(\d+)\]", lambda found: f", {found[1]} {int(found[2]) + 1}", said).replace(
        "`", ""
    )
