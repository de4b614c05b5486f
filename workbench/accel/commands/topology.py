"""`%accel topology`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Argument, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    from accel.machine.topology import topology, unread_input

    if place.program == "accel" and options.from_file is None and (hint := unread_input()):
        print(hint, file=sys.stderr)
    return topology(options.from_file, text=place.cell, html=options.html)


COMMAND = Command(
    "topology",
    "show how GPUs and network cards are joined, and which GPUs to use together",
    "%accel topology --from topo.txt",
    _run,
    (
        Argument(
            "--from",
            help="read what `nvidia-smi topo -m` printed on another machine (- reads standard input)",
            metavar="FILE",
            default=None,
            dest="from_file",
            completes="file",
        ),
        Argument(
            "--html",
            help="also write it to this file, as a page of its own for a browser",
            metavar="FILE",
            default=None,
            completes="file",
        ),
        OUT,
    ),
    takes_cell=True,
    needs_notebook=False,
)
