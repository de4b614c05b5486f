"""PastTrials: the plans that were measured on this machine, newest first; what `%accel history` shows."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from accel.history.records import TrialRecord
from accel.shown import Shown

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class PastTrials(Shown):
    """Measured plans, newest first.

    >>> print(accel.history())
    >>> accel.history().to_dataframe().groupby("plan").ratio.median()
    """

    rows: tuple[TrialRecord, ...]
    file: str  # "" when the history is off
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values that JSON can hold; what was not measured is None."""
        return {
            "file": self.file,
            "problem": self.problem,
            "trials": [plain(asdict(row)) for row in self.rows],
        }

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a measured plan."""
        import pandas

        return pandas.DataFrame(
            [asdict(row) for row in self.rows], columns=list(TrialRecord.__dataclass_fields__)
        )


def interval(ratio: float, low: float, high: float) -> str:
    """A ratio with its interval, as everywhere.

    >>> interval(1.4, 1.1, 1.6)
    '1.40× [1.10, 1.60]'
    """
    return f"{ratio:.2f}× [{low:.2f}, {high:.2f}]"


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """NaN, which JSON has not, becomes None."""
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in values.items()
    }
