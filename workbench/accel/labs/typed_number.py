"""A number as a student types it."""

from __future__ import annotations

import math
import re

_NUMBER = re.compile(r"[+-]?(\d{1,3}([, ]\d{3})+|\d+)?(\.\d*)?([eE][+-]?\d+)?")


def number_in(text: str) -> float | None:
    """The number; None where the text is none.

    >>> number_in("1,250"), number_in("0.35"), number_in("1e6"), number_in("many")
    (1250.0, 0.35, 1000000.0, None)
    """
    try:
        number = float(re.sub("[, ]", "", text)) if _NUMBER.fullmatch(text) else math.nan
    except ValueError:  # "", "." and the like
        return None
    return number if math.isfinite(number) else None
