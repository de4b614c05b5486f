"""Pieces of HTML that several sections are made of: tables that fold away, bars in a phase's colour."""

from __future__ import annotations

from collections.abc import Sequence

from accel.html_parts import OTHER_COLOUR, PHASE_COLOURS, Markup, bar, details, table
from accel.units import milliseconds
from accel.views.profile.section import SHOWN_ROWS

SHOWN_IN_DETAILS = 200


def long_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    numeric: Sequence[int] = (),
    shown: int = SHOWN_ROWS,
    rest_in: str = ".to_dataframe()",
) -> list[Markup]:
    """The first rows as a table, the next folded away, and how many are left out; `rest_in` says where all of them are.

    >>> long_table(["Kernel", "Time"], [("gemm", "1.2 ms"), …], numeric=[1])
    """
    first, rest = rows[:shown], rows[shown : shown + SHOWN_IN_DETAILS]
    parts = [table(headings, first, numeric=numeric)]
    if rest:
        left_out = len(rows) - len(first) - len(rest)
        more = f" (and {left_out} smaller ones in {rest_in})" if left_out else ""
        parts.append(details(f"{len(rest)} more{more}", table(headings, rest, numeric=numeric)))
    return parts


def whole(words: str) -> str:
    """A number and its unit are not to be torn apart at the end of a line."""
    return words.replace(" ", "\N{NO-BREAK SPACE}")


def time_cell(value_ms: float) -> str:
    """A time for a table's cell; nothing measured is a dash."""
    return whole(milliseconds(value_ms)) if value_ms else "–"


def count_cell(value: float) -> str:
    """A count per step for a table's cell."""
    return f"{value:.3g}" if value else "–"


def phase_bar(share: float, phase: str) -> Markup:
    """A bar in the colour of its phase; the phase itself stands in words next to it."""
    return bar(share, colour=PHASE_COLOURS.get(phase, OTHER_COLOUR))
