"""Findings: what the rules of diagnosis found in a profile, as `%accel findings` shows it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from accel import html_parts as html
from accel.profiling.report.findings import findings_html, findings_text

if TYPE_CHECKING:
    import pandas

    from accel.profiling.finding import Finding

NOTHING = "No rule found anything that costs 3 % of a step or more."


@dataclass(frozen=True)
class Findings:
    """The findings of one profile, most expensive first.

    >>> print(accel.findings())
    >>> accel.findings().rows[0].suggests
    ('loader_workers(n=2)',)
    """

    rows: tuple[Finding, ...]
    machine_line: str

    def __str__(self) -> str:
        return "\n".join([*(findings_text(self.rows) or [NOTHING]), "", self.machine_line])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values that JSON can hold."""
        return asdict(self)

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a finding: kind, title, share, predicted ratio with low and high, suggestions, line."""
        import pandas

        return pandas.DataFrame([_flat(row) for row in self.rows], columns=_COLUMNS)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        parts = findings_html(self.rows) or [html.note(NOTHING)]
        return {"text/plain": str(self), "text/html": html.block(*parts, html.note(self.machine_line))}


_COLUMNS = ["kind", "title", "share", "predicted", "low", "high", "suggests", "remedy", "line"]


def _flat(row: Finding) -> dict[str, Any]:
    predicted = row.prediction
    ratios = (predicted.ratio, predicted.low, predicted.high) if predicted else (None, None, None)
    values = (row.kind, row.title, row.share, *ratios, " ".join(row.suggests), row.remedy, row.line)
    return dict(zip(_COLUMNS, values, strict=True))
