"""Knobs of an acceleration as the page shows them: as texts, and what is typed read back as a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accel.errors import AccelError
from accel.plans.knobs import as_literal

if TYPE_CHECKING:
    from accel.plans.knobs import Knob

CHOOSE_FOR_ME = "auto"


def knob_shown(knob: Knob) -> dict[str, Any]:
    """A knob for the page: a list where its values are few, else a field; `default` is what an untouched one shows.

    >>> knob_shown(knobs_of(by_name("autocast"))[0])["choices"]
    ['bf16', 'fp16']
    """
    words = _words(knob)
    return {
        "name": knob.name,
        "choices": list(words),
        "default": next((word for word, value in words.items() if value == knob.default), "")
        if words
        else ("" if knob.default is None else str(knob.default)),
        "placeholder": CHOOSE_FOR_ME if knob.may_be_none else str(knob.default),
        "allowed": knob.allowed,
        "is_long": knob.type is str and not words,
    }


def knob_value(knob: Knob, typed: str) -> Any:
    """What was chosen or typed, as the knob's type; raises AccelError where the knob cannot be that.

    >>> knob_value(knobs_of(by_name("loader_workers"))[0], "2")
    2
    """
    words = _words(knob)
    value = words[typed] if typed in words else _read(typed.strip(), knob)
    if not knob.accepts(value):
        raise AccelError(f"{knob.name}={value!r}", because=f"it is {knob.allowed}",
                         do=f"Leave the field empty for {as_literal(knob.default)}.")  # fmt: skip
    return value


def _words(knob: Knob) -> dict[str, Any]:
    """The texts of a list, each with its value; empty where a value is free."""
    choices = [(str(choice), choice) for choice in knob.choices]
    if not choices and knob.type is bool:
        choices = [("yes", True), ("no", False)]
    return dict([(CHOOSE_FOR_ME, None), *choices] if choices and knob.may_be_none else choices)


def _read(text: str, knob: Knob) -> Any:
    """A typed text as the knob's type; empty is the default, and what cannot be read stays text, to be refused."""
    if text in ("", CHOOSE_FOR_ME):
        return knob.default
    try:
        return knob.type(text)
    except ValueError:
        return text
