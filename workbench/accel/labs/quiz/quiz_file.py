"""A chapter's questions in YAML: read with what is wrong named by question and field, and checked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from accel.labs.form_file import is_name, read_form, wrong_form
from accel.labs.quiz.own_profile import ABOUT
from accel.labs.quiz.questions import AnyQuestion, Own


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
    described = {"what": "quiz", "described_in": "docs/how-to/teach.md"}
    quiz = read_form(path, QuizFile, **described)
    if wrong := problems(quiz):
        raise wrong_form(path, wrong[0], **described)
    return quiz


def problems(quiz: QuizFile) -> list[str]:
    """What a teacher has to correct: a line each."""
    found = [
        f"{name}: stands {times} times"
        for name, times in Counter(each.id for each in quiz.questions).items()
        if times > 1
    ]
    for each in quiz.questions:
        if not is_name(each.id):
            found.append(f"{each.id}: a name has lower-case words with dashes")
        if isinstance(each, Own):
            found += [] if each.about in ABOUT else [f"{each.id}: there is no question about {each.about}"]
        else:
            found += [f"{each.id}: {problem}" for problem in each.problems()]
    return found
