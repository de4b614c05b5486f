"""Writes docs/accelerations.md from the cards: `python -m accel.accelerations.cards docs/accelerations.md`."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from accel.accelerations import CARD_HEADINGS, CATALOGUE
from accel.accelerations.knobs import as_literal, knobs_of

if TYPE_CHECKING:
    from accel.accelerations.acceleration import Acceleration

_CODE = "In plain PyTorch"
_LIST = "References"
_INTRODUCTION = """# The accelerations

Written from the cards in `workbench/accel/accelerations/` by `python -m accel.accelerations.cards
docs/accelerations.md`; a test compares the two. They stand in the order in which a plan applies them.

*exact*: the losses stay equal bit for bit. *close*: rounding differs; a trial compares the losses with the measured
noise.

Figures were measured once, on a two-core AMD EPYC with avx512_bf16 and torch 2.15, by the prototypes of this project. They
say when an acceleration is worth a try; what it gives you, `%accel try` measures on your machine.
"""


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


def page() -> str:
    """The whole page, as Markdown."""
    return "\n".join([_INTRODUCTION, *map(_section, CATALOGUE)])


def _section(entry: type[Acceleration]) -> str:
    sentence, sections = card(entry)
    process = ", belongs to the whole process" if entry.needs_own_process else ""
    parts = [
        f"## {entry.name}",
        sentence,
        f"Layer: {entry.layer}. Effect on training: *{entry.effect}*{process}.",
    ]
    knobs = [
        f"- `{knob.name}` = `{as_literal(knob.default)}`: {knob.allowed.replace(' or None', ' or None (chosen here)')}"
        for knob in knobs_of(entry)
    ]
    parts += ["\n".join(["Knobs:", "", *knobs])] if knobs else []
    parts += [f"**{heading}**\n\n{_body(heading, sections[heading])}" for heading in CARD_HEADINGS]
    return "\n\n".join(parts) + "\n"


def _body(heading: str, text: str) -> str:
    if heading == _CODE:
        return f"```python\n{text}\n```"
    return "\n".join(f"- {line}" for line in text.splitlines()) if heading == _LIST else text


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
