"""`%accel peaks`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Command, switch

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    from accel.machine.peaks import peaks

    return peaks(again=options.again, links=options.links)


COMMAND = Command(
    "peaks",
    "measure once what this machine can do at most: FLOP/s by dtype, bytes/s, copies to and from GPUs",
    "%accel peaks --links",
    _run,
    (
        switch(
            "--links",
            "also all-reduce between processes and copies between GPUs, which takes some seconds more",
        ),
        switch("--again", "measure anew and keep the higher rates: a busy machine makes them too low"),
        OUT,
    ),
    needs_notebook=False,
)
