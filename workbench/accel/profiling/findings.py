"""Findings: what the rules of diagnosis found in a profile, as `%accel findings` shows it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from accel.shown import Shown

if TYPE_CHECKING:
    import pandas

    from accel.profiling.finding import Finding


@dataclass(frozen=True)
class Findings(Shown):
    """The findings of one profile, most expensive first.

    >>> print(accel.findings())
    >>> accel.findings().rows[0].suggests
    ('loader_workers(n=2)',)
    """

    rows: tuple[Finding, ...]
    machine_line: str

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values that JSON can hold."""
        return asdict(self)

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a finding: kind, title, share, predicted ratio with low and high, suggestions, line."""
        import pandas

        return pandas.DataFrame([_flat(row) for row in self.rows], columns=_COLUMNS)


_COLUMNS = ["kind", "title", "share", "predicted", "low", "high", "suggests", "remedy", "line"]


def _flat(row: Finding) -> dict[str, Any]:
    predicted = row.prediction
    ratios = (predicted.ratio, predicted.low, predicted.high) if predicted else (None, None, None)
    values = (row.kind, row.title, row.share, *ratios, " ".join(row.suggests), row.remedy, row.line)
    return dict(zip(_COLUMNS, values, strict=True))
