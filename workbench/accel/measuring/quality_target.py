"""How good is good enough: `accuracy>=0.95`, `loss<=0.1`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from accel.errors import AccelError

_EXAMPLE = 'Write for example --until "accuracy>=0.95" or --until "loss<=0.1".'
_FORM = re.compile(r"\s*(?P<metric>[^\W\d]\w*)\s*(?P<sign>>=|<=)\s*(?P<value>\S+)\s*", re.ASCII)


@dataclass(frozen=True)
class QualityTarget:
    """A metric, and the value from which on it is good enough.

    >>> QualityTarget.parse("accuracy>=0.95").is_met(0.96)
    True
    """

    metric: str
    is_at_least: bool
    value: float

    @classmethod
    def parse(cls, text: str) -> QualityTarget:
        """Read a target as a user writes it; raises AccelError that says how it is written."""
        asked = f"--until {text!r}" if isinstance(text, str) else f"until={text!r}"
        match = _FORM.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise AccelError(asked, because="a target is a metric, >= or <=, and a number", do=_EXAMPLE)
        try:
            value = float(match["value"])
        except ValueError:
            raise AccelError(asked, because=f"{match['value']!r} is not a number", do=_EXAMPLE) from None
        if not math.isfinite(value):
            raise AccelError(asked, because="a target that is not finite is never or always met", do=_EXAMPLE)
        return cls(match["metric"], match["sign"] == ">=", value)

    def is_met(self, value: float | None) -> bool:
        """Whether a value of the metric is good enough; None, which stands for NaN, never is."""
        if value is None:
            return False
        return value >= self.value if self.is_at_least else value <= self.value

    def __str__(self) -> str:
        return f"{self.metric}{'>=' if self.is_at_least else '<='}{self.value!r}"
