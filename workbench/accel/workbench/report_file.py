"""All that a workbench knows as one HTML file: what is kept with its plain code, the trials, the profile, the machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError
from accel.html_parts import Markup, block, div, note, page, text
from accel.machine.reading import read_machine
from accel.shown import Shown

if TYPE_CHECKING:
    from accel.workbench.workbench import Workbench

TITLE = "accel report"
_HEAD_BYTES = 400  # in which a page has its title


@dataclass(frozen=True)
class ReportFile(Shown):
    """A report that was written: where it is, how large, and what is in it.

    >>> print(accel.report("report.html"))
    """

    path: str
    file_bytes: int
    parts: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return asdict(self)


def write_report(workbench: Workbench, file: str | Path, *, force: bool = False) -> ReportFile:
    """Write it; an earlier report is replaced, any other file only with `force`.

    >>> write_report(workbench, "report.html").path
    """
    path = Path(file).expanduser()
    asked = f"%accel report {file}"
    if workbench.profile_result is None:
        raise AccelError(
            asked,
            because="no cell was profiled yet",
            do="Put %%accel profile over your training cell and run it.",
        )
    parts = dict(_parts(workbench))
    written = page(
        f"{TITLE} · {path.stem}",
        Markup('<main style="color:CanvasText;background:Canvas">'),
        *_body(parts),
        Markup("</main>"),
    )
    try:
        if path.exists():
            _check_may_be_replaced(path, asked, force)
        path.write_text(written, encoding="utf-8")
        return ReportFile(str(path.resolve()), path.stat().st_size, tuple(parts))
    except (OSError, ValueError) as error:  # a name that no file can have
        why = getattr(error, "strerror", None) or error
        do = "Give a name in a folder that you can write to."
        raise AccelError(asked, because=f"it cannot be written ({why})", do=do) from error


def _check_may_be_replaced(path: Path, asked: str, force: bool) -> None:
    if not path.is_file():
        raise AccelError(asked, because="that is no file", do="Name the file to write, such as report.html.")
    with path.open("rb") as file:
        is_report = f"<title>{TITLE}".encode() in file.read(_HEAD_BYTES)
    if not (force or is_report):
        because = "a file of that name is there, and it is no report of accel"
        raise AccelError(asked, because=because, do="Give another name, or add --force to replace it.")


def _body(parts: dict[str, Markup]) -> Iterator[Markup]:
    font = "font-family:sans-serif;margin:20px 0 6px"
    yield Markup(f'<h1 style="{font};font-size:20px">{TITLE}</h1>')
    version, now = sys.modules["accel"].__version__, datetime.now()
    yield note(
        f"accel {version}, {now:%Y-%m-%d %H:%M}. What was measured on one machine, in a file that needs no other."
    )
    for title, part in parts.items():
        yield Markup(f'<h2 style="{font};font-size:16px">{text(title)}</h2>{div("overflow-x:auto", part)}')


def _parts(workbench: Workbench) -> Iterator[tuple[str, Markup]]:
    """What there is, by its title, in reading order."""
    yield "What is kept", _shown(workbench.status())
    if workbench.kept:
        yield "Plain PyTorch", _code(workbench)
    for number, trial in enumerate(workbench.trials[workbench.first_trial :], 1):
        yield f"Trial {number}", _shown(trial.result)
    yield "Profile", _shown(workbench.profile_result)
    yield "Machine", _shown(read_machine(again=True))


def _code(workbench: Workbench) -> Markup:
    """The cell with what is kept, or why it could not be written."""
    try:
        return _shown(workbench.export())
    except AccelError as error:
        return block(note(str(error)))


def _shown(result: Any) -> Markup:
    """A result as it shows in a notebook; its view has escaped it."""
    return Markup(result._repr_mimebundle_()["text/html"])
