"""The options that say where ranks run: on this machine, on hosts, or on nodes of a cluster."""

from __future__ import annotations

from accel.bounds import check_count
from accel.commands.command import Argument

LAUNCHER = Argument(
    "--launcher",
    help="what starts the ranks: this notebook (local, the default), torchrun, mpirun (Open MPI) or slurm; the last three "
    "run as a job, which goes on when the notebook ends",
    choices=("local", "torchrun", "mpirun", "slurm"),
    default="",
)
PLACES = (
    Argument("--on", help="a cluster that accel.toml describes", metavar="CLUSTER", default="", completes="cluster"),
    Argument("--hosts", help="machines for torchrun and mpirun, with ranks on each, as h1:4,h2:4", metavar="HOSTS", default=""),
    Argument("--nodes", help="machines to ask SLURM for", metavar="N", type=int, default=None, check=check_count),
    Argument("--partition", help="SLURM's queue", metavar="NAME", default=""),
    Argument(
        "--gpus-per-node", help="GPUs to ask SLURM for on each machine, a rank each", metavar="N", type=int, default=None,
        check=check_count,
    ),
    Argument("--time", help="how long the job may take, as 1:30:00", metavar="TIME", default=""),
)  # fmt: skip
