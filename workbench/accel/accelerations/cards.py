"""The card of an acceleration: its docstring, taken apart by the five headings."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel.accelerations.acceleration import Acceleration


def card(entry: type[Acceleration]) -> tuple[str, dict[str, str]]:
    """The card of an entry: its one sentence, and the text under each heading, in the card's order.

    >>> sentence, sections = card(by_name("autocast"))
    >>> list(sections) == list(CARD_HEADINGS)
    True
    """
    sentence, *rest = (inspect.getdoc(entry) or "").splitlines()
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in rest:
        if line and not line.startswith(" "):
            lines = sections.setdefault(line, [])
        else:
            lines.append(line.removeprefix("    "))
    return sentence, {heading: "\n".join(text).strip("\n") for heading, text in sections.items()}
