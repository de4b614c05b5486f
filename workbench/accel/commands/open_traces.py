"""`%accel open`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Argument, Command
from accel.errors import AccelError

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    from accel.workbench.trace_findings import open_with_findings

    return open_with_findings(*options.files)


def _has_file(options: argparse.Namespace, program: str) -> None:
    if not options.files:
        raise AccelError(
            f"{program} open",
            because="no file is named",
            do=f"Name a trace, as in {program} open trace.json.gz, or a folder with one trace a rank.",
        )


COMMAND = Command(
    "open",
    "read PyTorch profiler traces from a file, or from a folder with one a rank, and report on them",
    "%accel open trace.json.gz",
    _run,
    (
        Argument(
            "files",
            help="a .json or .json.gz file, several, or a folder",
            metavar="FILE",
            nargs="*",
            completes="file",
        ),
        OUT,
    ),
    check=_has_file,
    needs_notebook=False,
    in_python="open_trace",
)
