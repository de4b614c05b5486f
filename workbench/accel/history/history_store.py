"""HistoryStore: adds predictions and trials to the user's history and reads them; it never fails its caller."""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Callable, Iterable
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, TypeVar

from accel.history.history_file import NewerFormat, check, history_path, is_damage, opened, set_aside
from accel.history.records import UNKNOWN, PredictionRecord, TrialRecord

Record = TypeVar("Record", PredictionRecord, TrialRecord)
Answer = TypeVar("Answer")

_TABLES: dict[type[Any], str] = {PredictionRecord: "predictions", TrialRecord: "trials"}
_REAL = (
    "share", "ratio", "low", "high", "baseline_ms", "seconds", "baseline_seconds", "seeds", "break_even_steps",
)  # fmt: skip


def _columns(record: type[Any]) -> list[str]:
    return [field.name for field in fields(record)]


SCHEMA = [
    statement
    for record, table in _TABLES.items()
    for statement in (
        f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, "
        + ", ".join(f"{name} {'REAL' if name in _REAL else 'TEXT NOT NULL'}" for name in _columns(record))
        + ")",
        f"CREATE INDEX {table}_by_profile ON {table} (profile)",
    )
]
UPGRADES = [  # from format 1, from format 2
    [f"ALTER TABLE {table} ADD COLUMN live TEXT NOT NULL DEFAULT '{UNKNOWN}'" for table in _TABLES.values()],
    [
        "ALTER TABLE trials ADD COLUMN asked TEXT NOT NULL DEFAULT ''",
        *(f"ALTER TABLE trials ADD COLUMN {name} REAL" for name in _REAL[-4:]),
    ],
]
UNUSABLE = (
    OSError,
    sqlite3.Error,
    NewerFormat,
    ValueError,
    OverflowError,
)  # the last two: values and names no file holds


class HistoryStore:
    """The history file. What goes wrong with it is told in `problem`, and by `take_problem` once.

    >>> store = HistoryStore(Path("history.sqlite"))
    >>> store.add([prediction]); store.predictions()[0].kind
    'input_bound'

    Every call opens the file anew, so that any thread may call and no lock is held in between.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.problem = ""
        try:
            self.path = history_path() if path is None else path
        except RuntimeError as error:  # this user has no home
            self.path = None
            self.problem = f"No history is kept: {error} ACCEL_HISTORY names a file."
        self._is_told = self._is_checked = False
        self._lock = threading.Lock()

    def add(self, records: Iterable[PredictionRecord | TrialRecord]) -> None:
        """Write these records, all or none."""
        given = list(records)

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            for record in given:
                names = _columns(type(record))
                marks = ", ".join("?" * len(names))
                connection.execute(
                    f"INSERT INTO {_TABLES[type(record)]} ({', '.join(names)}) VALUES ({marks})",
                    [_stored(value) for value in astuple(record)],
                )

        self._with_file(write, None)

    def predictions(self) -> list[PredictionRecord]:
        """All predictions, oldest first."""
        return self._read(PredictionRecord)

    def trials(self) -> list[TrialRecord]:
        """All measured plans, oldest first."""
        return self._read(TrialRecord)

    def take_problem(self) -> str:
        """The problem, the first time it is asked for; then ""."""
        told, self._is_told = self._is_told, self._is_told or bool(self.problem)
        return "" if told else self.problem

    def _read(self, record: type[Record]) -> list[Record]:
        def read(connection: sqlite3.Connection) -> list[Record]:
            names = ", ".join(_columns(record))
            found = connection.execute(f"SELECT {names} FROM {_TABLES[record]} ORDER BY id")
            return [record(**_read_back(dict(row))) for row in found]

        return self._with_file(read, [])

    def _with_file(self, work: Callable[[sqlite3.Connection], Answer], otherwise: Answer) -> Answer:
        """Do it; set a damaged file aside and do it with a new one; where nothing can be written, remember why."""
        if self.path is None:
            return otherwise
        with self._lock:
            try:
                return self._once(self.path, work)
            except UNUSABLE as error:
                if is_damage(error):
                    return self._anew(self.path, work, otherwise, error)
                self.problem = (
                    f"The history at {self.path} cannot be used: {error}. ACCEL_HISTORY names another file."
                )
        return otherwise

    def _once(self, path: Path, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        if not self._is_checked:
            check(path)
            self._is_checked = True
        with opened(path, SCHEMA, UPGRADES) as connection:
            return work(connection)

    def _anew(
        self, path: Path, work: Callable[[sqlite3.Connection], Answer], otherwise: Answer, error: Exception
    ) -> Answer:
        self.problem = f"The history at {path} is damaged ({error})."
        try:
            self.problem += f" It was set aside as {set_aside(path).name}, and a new one begun."
            return self._once(path, work)
        except UNUSABLE as second:
            self.problem += f" A new one could not be begun: {second}."
            return otherwise


def _read_back(row: dict[str, Any]) -> dict[str, Any]:
    return {name: math.nan if value is None else value for name, value in row.items()}


def _stored(value: str | float) -> str | float | None:
    """SQLite has no NaN, and no half of a surrogate pair: it would refuse them."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return None if isinstance(value, float) and math.isnan(value) else value
