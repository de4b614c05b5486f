"""Finding: one cause of lost time in a profile, as a rule of `accel.diagnosis` gives it; Findings: all of one profile."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from accel.shown import Shown
from accel.units import csv_table, markdown_table
from accel.workload.user_code import CodeLine

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Prediction:
    """How many times as fast the step would be, with the interval that the assumptions allow.

    >>> str(Prediction(1.4, 1.1, 1.6))
    '1.40× [1.10, 1.60]'

    `basis` is the arithmetic in words: "Amdahl: forward and backward, 78 % of the step, become 1.3 to 2 times as fast".
    What is predicted `of` the cell (validation is in no step) cannot be held against a trial, which times steps.
    """

    ratio: float
    low: float
    high: float
    basis: str = ""
    of: Literal["step", "cell"] = "step"

    def __str__(self) -> str:
        return f"{self.ratio:.2f}× [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Finding:
    """One cause of lost time, in plain words.

    >>> print(profile.findings[0])
    Waiting for data: 38 % of each step

    `share` is the part of the step that it costs (0 to 1). `suggests` holds plans as `%accel try` takes them; it is empty
    where the remedy is an edit of the cell, which `remedy` then says. `line` is the line of the cell, 0 when there is none.
    """

    kind: str  # the rule's name: "input_bound"
    title: str  # "Waiting for data: 38 % of each step"
    what: str  # one or two sentences
    share: float
    evidence: tuple[str, ...]
    prediction: Prediction | None
    suggests: tuple[str, ...]
    remedy: str
    wrong_when: str
    line: int = 0
    filename: str = ""  # of the cell that `line` is of
    details: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.title

    @property
    def gain(self) -> float:
        """Expected speed-up of the step. Without a prediction for the step: as if half of the share were saved.

        >>> Finding(..., share=0.4, prediction=None, ...).gain
        1.25
        """
        if self.prediction is not None and self.prediction.of == "step":
            return self.prediction.ratio
        return 1.0 / (1.0 - min(self.share, 1.0) / 2)

    @property
    def place(self) -> str:
        """The line as a reader finds it: "cell [4], line 13"; "" where there is none."""
        return str(CodeLine(self.filename or "<cell>", self.line)) if self.line else ""

    @property
    def try_line(self) -> str:
        """What to type to measure the suggestions; "" when the remedy is an edit."""
        return " ".join(["%accel try", *self.suggests]) if self.suggests else ""

    @property
    def predicted(self) -> str:
        """The predicted gain in one sentence, with what it rests on; "" when nothing can be predicted."""
        if self.prediction is None:
            return ""
        basis = f" ({self.prediction.basis})" if self.prediction.basis else ""
        return f"{self.prediction} as fast{basis}"


@dataclass(frozen=True)
class Findings(Shown):
    """The findings of one profile, the largest predicted gain first.

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

    def to_markdown(self) -> str:
        """The rows of `to_dataframe` as a table for an issue or a README."""
        return markdown_table(map(_flat, self.rows), below=self.machine_line)

    def to_csv(self) -> str:
        """The rows of `to_dataframe` for a spreadsheet."""
        return csv_table(map(_flat, self.rows))


_COLUMNS = ["kind", "title", "share", "predicted", "low", "high", "suggests", "remedy", "line"]


def _flat(row: Finding) -> dict[str, Any]:
    predicted = row.prediction
    ratios = (predicted.ratio, predicted.low, predicted.high) if predicted else (None, None, None)
    values = (row.kind, row.title, row.share, *ratios, " ".join(row.suggests), row.remedy, row.line)
    return dict(zip(_COLUMNS, values, strict=True))
