"""RecordStore: dataclasses as rows of a small SQLite file of the user's own; it never fails its caller."""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, TypeVar

from accel.history.history_file import NewerFormat, check, is_damage, opened, set_aside

Record = TypeVar("Record")
Answer = TypeVar("Answer")

_KINDS = {
    "float": "REAL",
    "int": "INTEGER NOT NULL",
    "bool": "INTEGER NOT NULL",
}  # as annotations are written

UNUSABLE = (
    OSError,
    sqlite3.Error,
    NewerFormat,
    ValueError,
    OverflowError,
)  # the last two: values and names no file holds


def _columns(record: type[Any]) -> list[str]:
    return [field.name for field in fields(record)]


def table_for(record: type[Any], table: str) -> str:
    """The statement that makes the table of a kind of record, for a new file and for an upgrade."""
    columns = [f"{field.name} {_KINDS.get(str(field.type), 'TEXT NOT NULL')}" for field in fields(record)]
    return f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, {', '.join(columns)})"


class RecordStore:
    """Records of some kinds, a table each. `problem` says what is wrong with the file; `take_problem` says it once.

    >>> store = RecordStore(Path("history.sqlite"), {TrialRecord: "trials"}); store.add([trial]); store.read(TrialRecord)

    Every call opens the file anew, so that any thread may call and no lock is held in between.
    Fields are text, int, bool or float.

    Args:
        path: The file; None: nothing is kept.
        tables: The name of each kind's table.
        indexes: Statements that belong to a new file as well.
        upgrades: What makes the tables of format 1 into those of 2, and so on.
        called: What a reader knows the file by.
    """

    def __init__(
        self, path: Path | None, tables: Mapping[type[Any], str], *, indexes: Sequence[str] = (),
        upgrades: Sequence[Sequence[str]] = (), called: str = "The history",
    ) -> None:  # fmt: skip
        self.path, self.problem = path, ""
        self._tables, self._upgrades, self._called = dict(tables), upgrades, called
        self._schema = [*(table_for(record, table) for record, table in tables.items()), *indexes]
        self._is_told = self._is_checked = False
        self._lock = threading.Lock()

    def add(self, records: Iterable[Any]) -> bool:
        """Write these records, all or none; whether they were written."""
        given = list(records)

        def write(connection: sqlite3.Connection) -> bool:
            connection.execute("BEGIN IMMEDIATE")
            for record in given:
                names = _columns(type(record))
                marks = ", ".join("?" * len(names))
                connection.execute(
                    f"INSERT INTO {self._tables[type(record)]} ({', '.join(names)}) VALUES ({marks})",
                    [_stored(value) for value in astuple(record)],
                )
            return True

        return self._with_file(write, False)

    def take_problem(self) -> str:
        """The problem, the first time it is asked for; then ""."""
        told, self._is_told = self._is_told, self._is_told or bool(self.problem)
        return "" if told else self.problem

    def read(self, record: type[Record]) -> list[Record]:
        """All of a kind, oldest first."""

        def read(connection: sqlite3.Connection) -> list[Record]:
            names = ", ".join(_columns(record))
            found = connection.execute(f"SELECT {names} FROM {self._tables[record]} ORDER BY id")
            return [record(**_read_back(record, dict(row))) for row in found]

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
                self.problem = f"{self._called} at {self.path} cannot be used: {error}. ACCEL_HISTORY names another file."
        return otherwise

    def _once(self, path: Path, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        if not self._is_checked:
            check(path)
            self._is_checked = True
        with opened(path, self._schema, self._upgrades) as connection:
            return work(connection)

    def _anew(
        self, path: Path, work: Callable[[sqlite3.Connection], Answer], otherwise: Answer, error: Exception
    ) -> Answer:
        self.problem = f"{self._called} at {path} is damaged ({error})."
        try:
            self.problem += f" It was set aside as {set_aside(path).name}, and a new one begun."
            return self._once(path, work)
        except UNUSABLE as second:
            self.problem += f" A new one could not be begun: {second}."
            return otherwise


def _read_back(record: type[Any], row: dict[str, Any]) -> dict[str, Any]:
    """SQLite has no NaN and no bool: it keeps the first as NULL, the second as 0 or 1."""
    flags = {field.name for field in fields(record) if str(field.type) == "bool"}
    known = {name: math.nan if value is None else value for name, value in row.items()}
    return {name: bool(value) if name in flags else value for name, value in known.items()}


def _stored(value: str | float) -> str | float | None:
    """SQLite has no NaN, and no half of a surrogate pair: it would refuse them."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return None if isinstance(value, float) and math.isnan(value) else value
