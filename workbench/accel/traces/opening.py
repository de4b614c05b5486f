"""`open_trace`: a file, several, or a folder of ranks."""

from __future__ import annotations

import glob
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from accel.errors import AccelError

if TYPE_CHECKING:
    from accel.traces.ranks_report import RanksReport
    from accel.traces.trace_profile import TraceProfile

ENDINGS = (".json", ".json.gz")


def open_trace(
    *files: str | Path, each: Callable[[TraceProfile], TraceProfile] | None = None
) -> TraceProfile | RanksReport:
    """Read traces that torch.profiler wrote, of any version, on CPU or GPU: one file, or one a rank.

    >>> print(open_trace("trace.json.gz"))
    >>> print(open_trace("traces/"))            # a folder: one trace a rank

    A single process gives the report of a profile, several files or processes a comparison of ranks. AccelError when there is
    no trace in them.
    `each` may add to every report while that still holds its events: of several files those are not kept.
    """
    from accel.traces.reading_ranks import read_ranks

    asked = f"open {' '.join(map(str, files))}".strip()
    if not files:
        raise AccelError(
            asked, because="no file is named", do="Name a trace, or a folder with one trace a rank."
        )
    try:
        paths = [path for file in files for path in _paths(Path(file).expanduser(), asked)]
    except (
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # a name that is too long, or of a user who is not there
        why = getattr(error, "strerror", None) or str(error)
        raise AccelError(asked, because=why, do="Give the path of a trace file, or of a folder.") from error
    return read_ranks(list(dict.fromkeys(paths)), each=each)


def _paths(path: Path, asked: str) -> list[Path]:
    """A folder's traces, also in folders below it; a pattern's files; or the path itself."""
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.name.endswith(ENDINGS) and file.is_file())
        if not found:
            raise AccelError(
                asked,
                because=f"there is no {' or '.join(ENDINGS)} file in {path}",
                do="Name the folder that the traces are in.",
            )
        return found
    if not path.exists() and (matches := sorted(glob.glob(str(path)))):
        return [Path(match) for match in matches]
    return [path]
