"""`%accel what_if`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.bounds import check_count
from accel.commands.command import OUT, Argument, Command

if TYPE_CHECKING:
    from accel.commands.place import Place

NETWORKS = ("400gb", "200gb", "100gb", "25gb", "10gb", "1gb")
INSIDE = ("nvlink", "pcie", "memory")


def _run(options: argparse.Namespace, place: Place) -> object:
    from accel.workbench.step_work import Wish, forecast_for

    wish = Wish(**{name: getattr(options, name) for name in Wish.__dataclass_fields__})
    return forecast_for(place.workbench if place.has_workbench else None, wish)


def _number(flag: str, meaning: str, metavar: str, default: float | None) -> Argument:
    return Argument(flag, help=meaning, metavar=metavar, type=float, default=default)


COMMAND = Command(
    "what_if",
    "predict how much faster your cell would train on machines that are not there, up to thousands",
    "%accel what_if --machines 1,8,64 --network 200gb",
    _run,
    (
        Argument("--machines", help="how many, as 1,8,64 (default: 1 to 64)", metavar="NUMBERS", default="1,2,4,8,16,32,64"),
        Argument("--ranks-per-machine", help="ranks, or GPUs, of each (default: 8)", metavar="N", type=int, default=8,
                 check=check_count),
        Argument("--inside", help="what joins the ranks of a machine (default: nvlink); memory: CPUs", choices=INSIDE,
                 default="nvlink"),
        Argument("--network", help="what joins machines (default: 200gb)", choices=NETWORKS, default="200gb"),
        Argument("--rails", help="network cards of each machine (default: 1)", metavar="N", type=int, default=1,
                 check=check_count),
        _number("--step-ms", "a step of one rank without any exchange (default: that of the profiled cell)", "MS", None),
        _number("--gradient-mb", "megabytes of gradients (default: those of the profiled cell's models)", "MB", None),
        _number("--bucket-mb", "size of DDP's buckets of gradients (default: 25)", "MB", 25.0),
        Argument("--measured", help="seconds of this training by ranks of one machine, as 1:707,2:393,4:208: what it loses there "
                 "is taken from them", metavar="SECONDS", default=""),
        OUT,
    ),
    needs_notebook=False,
)  # fmt: skip
