"""Where the history is, and how its file is opened: by several notebooks at once, and whatever became of it meanwhile."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

OFF = "off"
WAIT_S = 5.0  # for other notebooks' writes, which take milliseconds each; more over a network
_BESIDE = ("-journal", "-wal", "-shm")  # what SQLite keeps next to a file
DAMAGE = (11, 26)  # SQLITE_CORRUPT, SQLITE_NOTADB


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


def path_or_why(kept: str) -> tuple[Path | None, str]:
    """The file, and what to say where none can be named: this user has no home.

    >>> path_or_why("No history is kept")[1]
    ''
    """
    try:
        return history_path(), ""
    except RuntimeError as error:
        return None, f"{kept}: {error} ACCEL_HISTORY names a file."


def is_history(path: Path) -> bool:
    """Whether a file is the history, or what SQLite keeps next to it while it writes."""
    kept, _ = path_or_why("")
    return kept is not None and str(path) in {f"{kept.absolute()}{end}" for end in ("", *_BESIDE)}


class NewerFormat(Exception):
    """The file was written by a later version of accel; it is neither read nor touched."""


@contextmanager
def opened(
    path: Path, schema: Sequence[str], upgrades: Sequence[Sequence[str]]
) -> Iterator[sqlite3.Connection]:
    """A connection; a transaction that the caller begins is committed at the end. The tables are made when the file is new.

    `upgrades` make the tables of format 1 into those of 2, and so on up to `schema`. Raises OSError or sqlite3.Error;
    `is_damage` tells which.
    """
    newest = len(upgrades) + 1
    path.parent.mkdir(parents=True, exist_ok=True)
    _keep_private(path)
    with closing(sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        if _format(connection, path, newest) < newest:
            # No WAL, which version 1 had: it needs memory shared by all who open the file, and homes lie on networks.
            connection.execute("PRAGMA journal_mode=DELETE")
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                written = _format(connection, path, newest)  # another notebook may have been faster
                steps = upgrades[written - 1 :] if written else [schema]
                for statement in (each for step in steps for each in step):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version={newest}")
        with connection:
            yield connection


def _keep_private(path: Path) -> None:
    """What was trained, and when, is nobody else's to read; SQLite gives its journal the file's own mode."""
    if not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    if path.stat().st_uid == os.getuid() and path.stat().st_mode & 0o077:
        path.chmod(0o600)


def _format(connection: sqlite3.Connection, path: Path, newest: int) -> int:
    written = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if written > newest:
        raise NewerFormat(f"{path} has format {written}; this version of accel knows {newest}")
    return written


def is_damage(error: Exception) -> bool:
    """Whether the error says that the file is damaged, not that a record, a lock or the disk is at fault."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # Python 3.10 gives no code, `check` neither; all else that is common is of a subclass
        return type(error) is sqlite3.DatabaseError
    return code & 0xFF in DAMAGE


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
    for end in ("", *_BESIDE):
        source = path.with_name(path.name + end)
        if source.exists():
            source.replace(aside.with_name(aside.name + end))
    return aside
