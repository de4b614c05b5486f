"""A chapter's questions in YAML: read with what is wrong named by question and field, and checked."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import msgspec

from accel.errors import AccelError
from accel.labs.quiz.own_profile import ABOUT
from accel.labs.quiz.questions import AnyQuestion, Own

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class QuizFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file holds."""

    chapter: int
    title: str
    questions: tuple[AnyQuestion, ...]


def read_quiz(path: Path) -> QuizFile:
    """Read a quiz; raises AccelError that names the first mistake.

    >>> read_quiz(Path("05.yaml")).questions[0].id
    'idle-device'
    """
    try:
        quiz = msgspec.yaml.decode(path.read_bytes(), type=QuizFile)
    except OSError as error:
        raise AccelError(
            f"The quiz {path}", because=f"it cannot be read ({error.strerror})", do="Name another file."
        ) from None
    except msgspec.DecodeError as error:  # no YAML, or YAML of another form
        raise AccelError(
            f"The quiz {path}", because=_place(str(error)), do="docs/how-to/teach.md has the form."
        ) from None
    if wrong := problems(quiz):
        raise AccelError(f"The quiz {path}", because=wrong[0], do="docs/how-to/teach.md has the form.")
    return quiz


def _place(message: str) -> str:
    """msgspec's message with the question counted as a reader counts: `$.questions[3]` is question 4."""
    said = re.sub(r"\$\.questions\[(\d+)\]", lambda found: f"question {int(found[1]) + 1}", message)
    return re.sub(r"\.(\w+)\[(\d+)\]", lambda found: f", {found[1]} {int(found[2]) + 1}", said).replace(
        "`", ""
    )


def problems(quiz: QuizFile) -> list[str]:
    """What a teacher has to correct: a line each."""
    found = [
        f"{name}: stands {times} times"
        for name, times in Counter(each.id for each in quiz.questions).items()
        if times > 1
    ]
    for each in quiz.questions:
        if not _NAME.fullmatch(each.id):
            found.append(f"{each.id}: a name has lower-case words with dashes")
        if isinstance(each, Own):
            found += [] if each.about in ABOUT else [f"{each.id}: there is no question about {each.about}"]
        else:
            found += [f"{each.id}: {problem}" for problem in each.problems()]
    return found
