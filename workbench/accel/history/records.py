"""What is kept of a prediction and of a trial: figures, names and versions; of the user's code only a hash; PastTrials."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from accel.shown import Shown
from accel.shown_text import where_tried
from accel.units import csv_table

if TYPE_CHECKING:
    import pandas

AS_THE_NOTEBOOK_RUNS, STEADY = "as the notebook runs", "steady allocator"
RUNNING, INTERRUPTED = "running", "interrupted"  # verdicts of a trial that has not ended
SEARCH = "%accel tune"  # the plan of a search that has just begun
ENDED = "ended"  # a verdict too: it began, has no figure, and is no row of the history
UNKNOWN = "?"  # `live` of records from before it was kept


@dataclass(frozen=True)
class PredictionRecord:
    """One finding's prediction for one plan; `plan` is "" where the remedy is an edit of the cell.

    `profile` is the name of one profiled run: trials of the workload that it left carry the same. `workload` is a hash.
    `live` is the plan that was kept while the cell ran: what is predicted comes on top of it.
    """

    profile: str
    workload: str
    time: str  # ISO, local time with its offset
    kind: str
    plan: str
    share: float
    ratio: float
    low: float
    high: float
    basis: str
    machine: str
    versions: str  # "python 3.11.7, torch 2.14.0"
    live: str = ""


@dataclass(frozen=True)
class TrialRecord:
    """One plan of a trial. Ratios are the figures a reader saw; NaN where nothing was measured.

    `live` is what the baseline had of the plan that was kept: a trial measures as if nothing were, but for the process.
    `asked` is what a trial by quality was for ("accuracy>=0.95"), "" of a trial by speed: its ratio is one of seconds of
    training, not of steps, and `quality` is that at their end. `break_even_steps` is from where a plan that compiles is ahead.
    """

    profile: str
    workload: str
    time: str
    plan: str
    verdict: str
    ratio: float
    low: float
    high: float
    where_measured: str  # AS_THE_NOTEBOOK_RUNS or STEADY
    quality: str
    baseline_ms: float
    described: str  # the workload in one line
    machine: str
    versions: str
    live: str = ""
    asked: str = ""
    seconds: float = math.nan  # of training with the plan, median over seeds
    baseline_seconds: float = math.nan  # and without
    seeds: float = math.nan
    break_even_steps: float = math.nan
    run: str = ""  # the trial's own name: it writes a plan again when it knows more; "" of records from before it was kept
    environment: str = ""  # that it ran in; "": the notebook's own

    @property
    def title(self) -> str:
        """The plan, and where it ran."""
        return where_tried(self.plan, self.environment)


@dataclass(frozen=True)
class PastTrials(Shown):
    """Measured plans, newest first.

    >>> print(accel.history())
    >>> accel.history().to_dataframe().groupby("plan").ratio.median()
    """

    rows: tuple[TrialRecord, ...]
    file: str  # "" when the history is off
    problem: str = ""
    cell: str = ""  # how long a step of the present cell took before, and takes now, in a sentence
    as_csv: bool = False  # how it prints

    @property
    def numbered(self) -> list[tuple[int, TrialRecord]]:
        """Each row with its number, which `--again` takes: counted from the oldest, so that it stays."""
        return [(len(self.rows) - place, row) for place, row in enumerate(self.rows)]

    @property
    def csv(self) -> str:
        """A line a measured plan, newest first, below the names of the columns."""
        columns = ["number", *TrialRecord.__dataclass_fields__]
        rows = [{"number": number, **asdict(row)} for number, row in self.numbered]
        return csv_table(rows, columns)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values that JSON can hold; what was not measured is None."""
        return {
            "file": self.file,
            "problem": self.problem,
            "cell": self.cell,
            "trials": [{"number": number, **plain(asdict(row))} for number, row in self.numbered],
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
