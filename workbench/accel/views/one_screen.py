"""What a terminal shows of a cell's value: at most a screen, whose last line says how to see all of it."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap

LINES, COLUMNS = 24, 100
MORE = "Shown in short: print(_) or --full shows all of it."


def one_screen(lines: Iterable[str], *, more: str = MORE) -> str:
    """Lines that fit: long ones go on in the next, and from where there is no room for them they are left out.

    >>> print(one_screen(["Keep channels_last: 1.2 to 1.4× faster, loss follows."]))
    Keep channels_last: 1.2 to 1.4× faster, loss follows.
    Shown in short: print(_) or --full shows all of it.
    """
    kept = [part for line in lines if line for part in _wrapped(line)]
    if len(kept) >= LINES:
        kept = [*kept[: LINES - 2], "…"]
    return "\n".join([*kept, more])


def _wrapped(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return wrap(line, COLUMNS, subsequent_indent=indent, break_on_hyphens=False)
