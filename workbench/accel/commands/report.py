"""`%accel report`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Argument, Command, switch

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    from accel.workbench.report_file import write_report

    return write_report(place.workbench, options.file, force=options.force)


COMMAND = Command(
    "report",
    "write one HTML file to pass on: what is kept and its plain code, the trials, the profile, the machine",
    "%accel report report.html",
    _run,
    (
        Argument(
            "file",
            help="the file to write (default: accel_report.html); an earlier report is replaced",
            metavar="FILE",
            nargs="?",
            default="accel_report.html",
            completes="file",
        ),
        switch("--force", "replace a file that is no report, too"),
        OUT,
    ),
)
