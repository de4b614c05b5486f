"""Text from anywhere (names in a trace, files, exceptions, variables) as it may be shown: the one door to terminal and page.

What a terminal would obey, and what turns the direction of a line round, is written out; what is too long is cut.
"""

from __future__ import annotations

import re

# Control characters but tab and line end, marks and overrides of direction, line separators, halves of surrogate pairs.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
LONGEST_NAME = (
    2000  # of the names that C++ templates have, which run to thousands, the function's own stands in front
)


def shown(text: str) -> str:
    r"""The text with each character that would be obeyed written as its escape.

    >>> shown("\x1b[31mred")
    '\\x1b[31mred'
    """
    return _OBEYED.sub(_escape, text) if _OBEYED.search(text) else text


def one_line(name: str, longest: int = LONGEST_NAME) -> str:
    """A name on one line, of bounded length."""
    if len(name) > longest:
        name = f"{name[: longest - 1]}…"
    return shown(name).replace("\n", "\\n").replace("\t", "\\t")


def where_tried(plan: str, environment: str) -> str:
    """A plan with the environment that it ran in, where that was not the notebook's own.

    >>> where_tried("ipex", "intel"), where_tried("autocast", "")
    ('ipex (in intel)', 'autocast')
    """
    return f"{plan} (in {environment})" if environment else plan


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
