"""HistoryStore: adds predictions and trials to the user's history and reads them; it never fails its caller."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from accel.history.history_file import path_or_why
from accel.history.record_store import RecordStore
from accel.history.records import ENDED, INTERRUPTED, RUNNING, UNKNOWN, PredictionRecord, TrialRecord
from accel.history.runs import goes_on

_TABLES = {PredictionRecord: "predictions", TrialRecord: "trials"}
_INDEXES = [f"CREATE INDEX {table}_by_profile ON {table} (profile)" for table in _TABLES.values()]
_UPGRADES = [  # from format 1, 2, and so on
    [f"ALTER TABLE {table} ADD COLUMN live TEXT NOT NULL DEFAULT '{UNKNOWN}'" for table in _TABLES.values()],
    [
        "ALTER TABLE trials ADD COLUMN asked TEXT NOT NULL DEFAULT ''",
        *(
            f"ALTER TABLE trials ADD COLUMN {name} REAL"
            for name in ("seconds", "baseline_seconds", "seeds", "break_even_steps")
        ),
    ],
    ["ALTER TABLE trials ADD COLUMN run TEXT NOT NULL DEFAULT ''"],
    ["ALTER TABLE trials ADD COLUMN environment TEXT NOT NULL DEFAULT ''"],
]


class HistoryStore(RecordStore):
    """The history file.

    >>> store = HistoryStore(Path("history.sqlite"))
    >>> store.add([prediction]); store.predictions()[0].kind
    'input_bound'
    """

    def __init__(self, path: Path | None = None) -> None:
        path, problem = path_or_why("No history is kept") if path is None else (path, "")
        super().__init__(path, _TABLES, indexes=_INDEXES, upgrades=_UPGRADES)
        self.problem = problem

    def predictions(self) -> list[PredictionRecord]:
        """All predictions, oldest first."""
        return self.read(PredictionRecord)

    def trials(self) -> list[TrialRecord]:
        """All plans, oldest first; of one that was written several times, the last.

        A trial says that it begins. Where it says no more and its process is gone, it was interrupted.
        """
        last: dict[tuple[object, ...], TrialRecord] = {}
        rows = self.read(TrialRecord)
        ended = {(row.run, row.plan) for row in rows if row.run and row.verdict != RUNNING}
        for number, row in enumerate(rows):
            if row.verdict == ENDED:
                continue
            if row.verdict == RUNNING:
                if (row.run, row.plan) in ended:
                    continue
                row = row if goes_on(row.run) else replace(row, verdict=INTERRUPTED)
            key = (row.run, row.plan, row.where_measured) if row.run else (number,)
            last[key] = row  # in the place of the first: numbers of other rows stay
        return list(last.values())
