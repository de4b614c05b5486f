"""The kinds of question: how each is asked without its answer, and how an answer is marked.

An answer is what the page sends: the places of the chosen options, in the order in which they were shown, or a number.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from accel.errors import AccelError
from accel.labs.typed_number import number_in


class Remark(Struct, frozen=True):
    """What there is to say about one option, item or pair; `is_right` None: it was not asked for."""

    text: str
    why: str
    is_right: bool | None = None


class Marking(Struct, frozen=True):
    """What became of an answer: whether it is right, and what to tell who gave it."""

    is_right: bool
    hint: str = ""
    remarks: tuple[Remark, ...] = ()


class Question(Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """What all kinds have: a name, the lesson of the chapter that it belongs to, and what is asked (Markdown)."""

    id: str
    lesson: str
    ask: str

    @property
    def kind(self) -> str:
        """Its word in the file."""
        return str(type(self).__struct_config__.tag)

    def asked(self) -> dict[str, Any]:
        """What the page shows; nothing in it tells the answer."""
        return {
            "id": self.id, "kind": self.kind, "lesson": self.lesson.replace("-", " "), "ask": self.ask, "choices": [],
            "lefts": [], "unit": "",
        }  # fmt: skip

    def mark(self, answer: Any) -> Marking:
        """Whether an answer is right, and what is worth knowing about what was chosen; raises AccelError if it is no answer."""
        raise NotImplementedError

    def solution(self) -> Marking:
        """The right answer, with an explanation of every option."""
        raise NotImplementedError

    def problems(self) -> list[str]:
        """What is wrong with the question itself."""
        return []

    def shuffled(self, count: int) -> list[int]:
        """The places of so many options in the order in which they are shown: always the same, and never as written."""
        order = list(range(count))
        mixed = random.Random(self.id)
        while count > 1 and order == sorted(order):
            mixed.shuffle(order)
        return order

    def no_answer(self, because: str, do: str) -> AccelError:
        """The error for something that cannot be marked."""
        return AccelError(f"Your answer to {self.id}", because=because, do=do)

    def chosen(self, answer: Any, count: int) -> list[int]:
        """The places that an answer names, as written in the file."""
        places = answer if isinstance(answer, list) else [answer]
        order = self.shuffled(count)
        if not places or any(type(place) is not int or not 0 <= place < count for place in places):
            raise self.no_answer("nothing is chosen", "Choose first, then check.")
        return [order[place] for place in places]


class Option(Struct, frozen=True, forbid_unknown_fields=True):
    """An option to choose: its text, whether it is right, and why."""

    text: str
    why: str
    correct: bool = False


class _OfOptions(Question, frozen=True, kw_only=True):
    options: tuple[Option, ...]

    def asked(self) -> dict[str, Any]:
        texts = [self.options[place].text for place in self.shuffled(len(self.options))]
        return super().asked() | {"choices": texts}

    def solution(self) -> Marking:
        return Marking(
            True, remarks=tuple(Remark(each.text, each.why, each.correct) for each in self.options)
        )

    @property
    def right(self) -> set[int]:
        """The places of the right options."""
        return {place for place, each in enumerate(self.options) if each.correct}

    def remarks_on(self, places: Sequence[int]) -> tuple[Remark, ...]:
        """What there is to say about these options."""
        return tuple(
            Remark(each.text, each.why, each.correct) for each in map(self.options.__getitem__, places)
        )


class Single(_OfOptions, frozen=True, kw_only=True, tag="single"):
    """One option is right."""

    def mark(self, answer: Any) -> Marking:
        places = self.chosen(answer, len(self.options))
        if len(places) > 1:
            raise self.no_answer("more than one is chosen", "Choose one.")
        (place,) = places
        return Marking(place in self.right, remarks=self.remarks_on([place]))

    def problems(self) -> list[str]:
        return (
            []
            if len(self.right) == 1 and len(self.options) > 2
            else ["needs three options or more, one of them correct"]
        )


class Multiple(_OfOptions, frozen=True, kw_only=True, tag="multiple"):
    """Several options are right; all of them have to be chosen, and no other."""

    def mark(self, answer: Any) -> Marking:
        places = self.chosen(answer, len(self.options))
        wrong, missing = [place for place in places if place not in self.right], self.right - set(places)
        hint = (
            f"{len(missing)} more {'is' if len(missing) == 1 else 'are'} right."
            if missing and not wrong
            else ""
        )
        return Marking(not wrong and not missing, hint, self.remarks_on(wrong))

    def problems(self) -> list[str]:
        return (
            []
            if 2 <= len(self.right) < len(self.options)
            else ["needs two correct options or more, and one that is not"]
        )


class Near(Struct, frozen=True, forbid_unknown_fields=True):
    """A number that many give, and what was overlooked."""

    value: float
    why: str


class Numeric(Question, frozen=True, kw_only=True, tag="numeric"):
    """A number, right within a tolerance in its own unit."""

    answer: float
    why: str
    otherwise: str
    tolerance: float = 0.0
    unit: str = ""
    near: tuple[Near, ...] = ()

    def asked(self) -> dict[str, Any]:
        return super().asked() | {"unit": self.unit}

    def mark(self, answer: Any) -> Marking:
        given = self._number(str(answer).strip().removesuffix(self.unit or "%").strip())
        if self._is(given, self.answer):
            return self.solution()
        near = next((each.why for each in self.near if self._is(given, each.value)), self.otherwise)
        return Marking(False, near)

    def solution(self) -> Marking:
        unit = f" {self.unit}" if self.unit else ""
        return Marking(True, remarks=(Remark(f"{_written(self.answer)}{unit}", self.why, True),))

    def problems(self) -> list[str]:
        right = [each for each in self.near if self._is(each.value, self.answer)]
        return [f"the near miss {right[0].value} is within the tolerance"] if right else []

    def _number(self, text: str) -> float:
        number = number_in(text)
        if number is None:
            raise self.no_answer(
                f"{text!r} is no number", "Write 1250 or 0.35, with a point before decimals."
            )
        return number

    def _is(self, given: float, wanted: float) -> bool:
        return abs(given - wanted) <= self.tolerance + 1e-9 * abs(wanted)


def _written(number: float) -> str:
    return f"{number:,.0f}" if number == round(number) or abs(number) >= 1e4 else f"{number:.4g}"


class Item(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing in an order, and why it comes there; or one to which nothing belongs."""

    text: str
    why: str


class Ordering(Question, frozen=True, kw_only=True, tag="ordering"):
    """Items, written in their right order."""

    items: tuple[Item, ...]

    def asked(self) -> dict[str, Any]:
        return super().asked() | {
            "choices": [self.items[place].text for place in self.shuffled(len(self.items))]
        }

    def mark(self, answer: Any) -> Marking:
        places = self.chosen(answer, len(self.items))
        if len(set(places)) < len(self.items):
            raise self.no_answer("not every item has a place of its own", "Move each item to its place.")
        right = next((at for at, place in enumerate(places) if at != place), len(places))
        if right == len(places):
            return self.solution()
        hint = (
            "The first one is not yet right"
            if not right
            else f"The first {right} are right, the next one is not"
        )
        return Marking(
            False, f"{hint}.", tuple(Remark(each.text, each.why, True) for each in self.items[:right])
        )

    def solution(self) -> Marking:
        return Marking(True, remarks=tuple(Remark(each.text, each.why, True) for each in self.items))

    def problems(self) -> list[str]:
        return [] if len(self.items) > 2 else ["needs three items or more"]


class Pair(Struct, frozen=True, forbid_unknown_fields=True):
    """Two that belong together, and why."""

    left: str
    right: str
    why: str


class Matching(Question, frozen=True, kw_only=True, tag="matching"):
    """Pairs to be found again; `extra` belongs to none."""

    pairs: tuple[Pair, ...]
    extra: tuple[Item, ...] = ()

    @property
    def rights(self) -> list[str]:
        """What can be chosen, as written."""
        return [pair.right for pair in self.pairs] + [each.text for each in self.extra]

    def asked(self) -> dict[str, Any]:
        texts = [self.rights[place] for place in self.shuffled(len(self.rights))]
        return super().asked() | {"choices": texts, "lefts": [pair.left for pair in self.pairs]}

    def mark(self, answer: Any) -> Marking:
        places = self.chosen(answer, len(self.rights))
        if len(places) != len(self.pairs):
            raise self.no_answer("not every line has a partner", "Choose one for each.")
        found = [at for at, place in enumerate(places) if at == place]
        if len(found) == len(self.pairs):
            return self.solution()
        chosen = {place for place in places if place >= len(self.pairs)}
        extra = tuple(
            Remark(each.text, each.why, False)
            for each in (self.extra[at - len(self.pairs)] for at in sorted(chosen))
        )
        return Marking(False, f"{len(found)} of {len(self.pairs)} belong together.", extra)

    def solution(self) -> Marking:
        pairs = (Remark(f"{pair.left} — {pair.right}", pair.why, True) for pair in self.pairs)
        return Marking(True, remarks=(*pairs, *(Remark(each.text, each.why) for each in self.extra)))

    def problems(self) -> list[str]:
        alike = len(set(self.rights)) < len(self.rights)
        return (
            ["two of what can be chosen read alike"]
            if alike
            else []
            if len(self.pairs) > 1
            else ["needs two pairs or more"]
        )


class Own(Struct, frozen=True, kw_only=True, tag_field="kind", tag="own", forbid_unknown_fields=True):
    """A question about the student's own last profile: `about` names what, in `own_profile.ABOUT`."""

    id: str
    lesson: str
    about: str


AnyQuestion = Single | Multiple | Numeric | Ordering | Matching | Own
