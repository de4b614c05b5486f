"""`%accel oneccl`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Command, switch

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    from accel.distributed.oneccl.state import oneccl_here

    return oneccl_here(build=options.build)


COMMAND = Command(
    "oneccl",
    "say whether ranks can talk by oneCCL (--backend ccl, experimental), or build it",
    "%accel oneccl --build",
    _run,
    (
        switch(
            "--build",
            "download Intel's wheels into a private folder, and compile the backend against this torch",
        ),
        OUT,
    ),
    needs_notebook=False,
)
