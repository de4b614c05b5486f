"""`accel app`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import Argument, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    from accel.workbench.voila_app import serve

    return serve(options.file, port=options.port)


COMMAND = Command(
    "app",
    "serve a notebook as an app by Voila, on this machine and for you alone: its outputs and panels, without its code",
    "accel app training.ipynb",
    _run,
    (
        Argument("file", help="the notebook", metavar="FILE", nargs="?", default="", completes="file"),
        Argument(
            "--port",
            help="listen on this port (default: a free one)",
            metavar="PORT",
            type=int,
            default=None,
        ),
    ),
    needs_notebook=False,
    beats=False,
)
