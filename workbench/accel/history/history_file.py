"""Where the history is, and how its file is opened: by several notebooks at once, and whatever became of it meanwhile."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

OFF = "off"
FORMAT = 1
WAIT_S = 2.0  # for another notebook's write, which takes milliseconds


def history_path() -> Path | None:
    """The file: $ACCEL_HISTORY, else accel/history.sqlite in the user's data folder; None when it is off.

    >>> history_path()          # with ~ written out
    PosixPath('~/.local/share/accel/history.sqlite')
    """
    named = os.environ.get("ACCEL_HISTORY")
    if named is not None:
        return None if named.strip().lower() in ("", OFF) else Path(named).expanduser()
    folder = os.environ.get("XDG_DATA_HOME")
    return (Path(folder) if folder else Path.home() / ".local" / "share") / "accel" / "history.sqlite"


class NewerFormat(Exception):
    """The file was written by a later version of accel; it is neither read nor touched."""


@contextmanager
def opened(path: Path, schema: str) -> Iterator[sqlite3.Connection]:
    """A connection in a transaction that is committed at the end; the tables are made when the file is new.

    Raises OSError or sqlite3.OperationalError where it cannot be written, sqlite3.DatabaseError when it is damaged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, timeout=WAIT_S)) as connection:
        connection.row_factory = sqlite3.Row
        written = connection.execute("PRAGMA user_version").fetchone()[0]
        if written > FORMAT:
            raise NewerFormat(f"{path} has format {written}; this version of accel knows {FORMAT}")
        if written < FORMAT:
            connection.execute("PRAGMA journal_mode=WAL")  # readers and one writer do not wait for each other
            connection.executescript(schema)
            connection.execute(f"PRAGMA user_version={FORMAT}")
        with connection:
            yield connection


def check(path: Path) -> None:
    """Raise sqlite3.DatabaseError when the file is there and damaged."""
    if not path.exists() or not path.stat().st_size:
        return
    with closing(sqlite3.connect(path, timeout=WAIT_S)) as connection:
        said = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if said != "ok":
        raise sqlite3.DatabaseError(said)


def set_aside(path: Path) -> Path:
    """Rename a damaged file, with what SQLite keeps beside it; returns its new name.

    Another notebook may have done so already: then there is nothing left to rename.
    """
    aside = path.with_name(f"{path.stem}.damaged-{datetime.now():%Y%m%d-%H%M%S-%f}{path.suffix}")
    for end in ("", "-wal", "-shm"):
        source = path.with_name(path.name + end)
        if source.exists():
            source.replace(aside.with_name(aside.name + end))
    return aside
