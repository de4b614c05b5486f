"""The knobs of an entry, read from its type hints: for controls, completion, and to check what a user typed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from accel.errors import AccelError, UnknownName

if TYPE_CHECKING:
    from accel.accelerations.acceleration import Acceleration


MOST = 1_000_000  # of anything that a knob counts: what is more overflows somewhere, long after


@dataclass(frozen=True)
class Knob:
    """One knob: its name, its default, and what it can be.

    `choices` lists the values of a Literal and is empty for a free value of `type`; `may_be_none` when None (choose for
    me) is allowed.
    """

    name: str
    type: type
    default: Any
    choices: tuple[Any, ...] = ()
    may_be_none: bool = False

    @property
    def allowed(self) -> str:
        """What can be written, in words."""
        if self.choices:
            words = " or ".join(as_literal(choice) for choice in self.choices)
        else:
            words = {
                int: "a whole number", float: "a number", bool: "True or False", str: "a text in quotes",
            }.get(self.type, f"a {self.type.__name__}")  # fmt: skip
        return f"{words}, or None" if self.may_be_none else words

    def accepts(self, value: object) -> bool:
        """Whether the value has the knob's type and is among its choices. True is not a number here; 2 is one for 2.0."""
        if value is None:
            return self.may_be_none
        if self.type is float and type(value) is int and not self.choices:
            return True
        if type(value) is not self.type:
            return False
        return not self.choices or value in self.choices


@cache
def knobs_of(entry: type[Acceleration]) -> tuple[Knob, ...]:
    """The knobs of an entry class, in the order of its fields.

    >>> from accel.accelerations import by_name
    >>> [knob.name for knob in knobs_of(by_name("loader_workers"))]
    ['n', 'prefetch_factor', 'persistent']
    """
    hints = get_type_hints(entry)
    return tuple(_knob(f.name, hints[f.name], f.default) for f in dataclasses.fields(entry))  # type: ignore[arg-type]


def _knob(name: str, hint: Any, default: Any) -> Knob:
    options = get_args(hint) if get_origin(hint) is not Literal else ()
    may_be_none = type(None) in options
    inner = next(option for option in options if option is not type(None)) if may_be_none else hint
    if get_origin(inner) is Literal:
        choices = get_args(inner)
        return Knob(name, type(choices[0]), default, choices, may_be_none)
    return Knob(name, inner, default, (), may_be_none)


def check_knobs(entry: type[Acceleration], given: dict[str, Any]) -> None:
    """Refuse knobs that the entry does not have and values that a knob cannot take, naming what is allowed."""
    knobs = {knob.name: knob for knob in knobs_of(entry)}
    for name, value in given.items():
        if name not in knobs:
            raise UnknownName(f"knob of {entry.name}", name, knobs)
        knob = knobs[name]
        if knob.accepts(value):
            if type(value) in (int, float) and not abs(value) <= MOST:
                raise AccelError(
                    f"{entry.name}({name}=…)", because=f"a number is at most {MOST:,}",
                    do=f"Write for example {entry.name}({name}={as_literal(_example(knob))}).",
                )  # fmt: skip
            continue
        if knob.type is str and isinstance(value, str):
            raise UnknownName(f"{name} of {entry.name}", value, knob.choices)
        raise AccelError(
            f"{entry.name}({name}={value!r})",
            because=f"{name} is {knob.allowed}",
            do=f"Write for example {entry.name}({name}={as_literal(_example(knob))}).",
        )


def _example(knob: Knob) -> object:
    if knob.default is not None:
        return knob.default
    return knob.choices[0] if knob.choices else {int: 2, bool: True}.get(knob.type, "")


def as_literal(value: object) -> str:
    """A knob's value as it is written in a plan; texts in double quotes.

    >>> as_literal("bf16")
    '"bf16"'
    """
    text = repr(value)
    return f'"{text[1:-1]}"' if isinstance(value, str) and text.startswith("'") and '"' not in text else text
