"""Write what was exported to a new file."""

from __future__ import annotations

from pathlib import Path

from accel.errors import AccelError


def save_new(path: str | Path, text: str) -> Path:
    """Write the text to a new file; an existing one is never overwritten.

    >>> save_new("train.py", "print(1)\\n")
    PosixPath('train.py')
    """
    path = Path(path).expanduser()
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
    except FileExistsError:
        because, do = "a file of that name is there already", "Give another name, or remove it first."
        raise AccelError(f"save {path}", because=because, do=do) from None
    except OSError as error:
        raise _refused(path, error) from error
    return path


def make_folder(path: Path) -> None:
    """Make a folder that need not be there yet."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(path, error) from error


def _refused(path: Path, error: OSError) -> AccelError:
    because = error.strerror or str(error)
    return AccelError(f"save {path}", because=because, do="Give a path in a folder that you can write to.")
