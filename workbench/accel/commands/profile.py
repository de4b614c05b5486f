"""`%%accel profile`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.bounds import check_steps
from accel.commands.command import FULL, OUT, Argument, Command, switch
from accel.errors import AccelError

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    """A cell is profiled as it runs, by the notebook's cell runner; what comes here is a line without one."""
    raise AccelError(
        "%accel profile",
        because="it profiles a whole cell",
        do="Write %%accel profile, with two %, as the first line of your training cell.",
    )


COMMAND = Command(
    "profile",
    "run this cell, say where the time of each training step goes, and remember the cell as the workload",
    "%%accel profile --steps 5",
    _run,
    (
        Argument(
            "--steps",
            help="how many steps to look into with torch.profiler; all steps are timed (default: 5)",
            metavar="N",
            type=int,
            default=5,
            check=check_steps,
        ),
        switch("--shapes", "record input shapes: FLOPs and bytes of each operation, and the roofline"),
        switch("--stacks", "record the line of your code that led to each operation"),
        switch("--memory", "record allocations: bytes over the step, and the peak by phase and module"),
        FULL,
        OUT,
    ),
    takes_cell=True,
)
