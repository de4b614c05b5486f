"""`%accel cluster`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.bounds import check_count
from accel.commands.command import OUT, Argument, Command
from accel.commands.where import LAUNCHER, PLACES

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    from accel.distributed.jobs.cluster_asked import ASKED, cluster_asked
    from accel.workbench.cluster_probe import probe_cluster

    asked = cluster_asked(**{name: getattr(options, name) for name in ASKED})
    return probe_cluster(place.workbench if place.has_workbench else None, asked, options.n or 2)


COMMAND = Command(
    "cluster",
    "show hosts and network interfaces of ranks, measure all-reduces between them, predict your cell's speed-up on more",
    "%accel cluster --on mycluster",
    _run,
    (
        Argument("-n", help="so many ranks (default: 2, or those of the cluster)", metavar="RANKS", type=int, default=None,
                 check=check_count),
        LAUNCHER,
        *PLACES,
        OUT,
    ),
    needs_notebook=False,
)  # fmt: skip
