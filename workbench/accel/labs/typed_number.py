"""A number as a student types it."""

from __future__ import annotations

import math
import re

_NUMBER = re.compile(r"[+-]?([1-9]\d{0,2}([, ]\d{3})+|\d+)?(\.\d*)?([eE][+-]?\d+)?")


def number_in(text: str) -> float | None:
    """The number; None where the text is none.

    >>> number_in("1,250"), number_in("0.35"), number_in("1e6"), number_in("0,350"), number_in("many")
    (1250.0, 0.35, 1000000.0, None, None)
    """
    try:
        number = float(re.sub("[, ]", "", text)) if _NUMBER.fullmatch(text) else math.nan
    except ValueError:  # "", "." and the like
        return None
    return number if math.isfinite(number) else None
