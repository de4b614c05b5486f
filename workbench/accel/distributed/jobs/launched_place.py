"""Which rank a launcher made of this process: its variables, by the launcher that the job names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from accel.distributed.jobs.cluster import LauncherName
from accel.distributed.jobs.launchers.launcher import START
from accel.distributed.ranks.rank_place import RankPlace
from accel.errors import AccelError

RESTARTS_A_START = (
    1000  # attempts are numbered by the start of launch.sh, and within it by the launcher's restarts
)
# Of each launcher: rank, world size, local rank, ranks on this machine, restarts within one start of launch.sh.
_OPEN_MPI = (
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "",
)  # fmt: skip
# MPICH's and Intel's mpirun, then those of MVAPICH and of Cray.
_PMI = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID MV2_COMM_WORLD_LOCAL_RANK PMI_LOCAL_RANK PALS_LOCAL_RANKID",
        "MPI_LOCALNRANKS MV2_COMM_WORLD_LOCAL_SIZE PMI_LOCAL_SIZE", "")  # fmt: skip
_VARIABLES: dict[LauncherName, tuple[tuple[str, ...], ...]] = {
    "torchrun": (("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT"),),
    "mpirun": (_OPEN_MPI, _PMI),
    "slurm": (("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE", ""),),
}


def place_of(launcher: LauncherName, variables: Mapping[str, str] = os.environ) -> tuple[RankPlace, int]:
    """The place of this process among the ranks, and which attempt it is, from 0.

    >>> place_of("mpirun", {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", ...})
    (RankPlace(rank=1, world_size=2, local_rank=0, local_world_size=1, first_host='node1'), 0)

    The attempt grows with each start.

    Only the variables of this launcher count: a notebook may have set RANK for itself, and a job of SLURM may run mpirun.
    """
    for names in _VARIABLES[launcher]:
        if names[0] in variables:
            rank, size, local_rank, on_machine, restarts = names
            local = next((variables[name] for name in on_machine.split() if variables.get(name)), "1")
            return RankPlace(
                _number(launcher, variables, rank), _number(launcher, variables, size), _number(launcher, variables, local_rank),
                _of_node(local, int(variables.get("SLURM_NODEID", 0))) if launcher == "slurm" else int(local),
                variables.get("MASTER_ADDR", "127.0.0.1"),
            ), int(variables.get(START, 0)) * RESTARTS_A_START + int(variables.get(restarts, 0))  # fmt: skip
    expected = " or ".join(names[0] for names in _VARIABLES[launcher])
    raise AccelError(
        f"A rank of a job for {launcher}", because=f"{expected} is not set: this process was not started by it",
        do="Start launch.sh, which lies in the job's folder.",
    )  # fmt: skip


def _number(launcher: LauncherName, variables: Mapping[str, str], names: str) -> int:
    """Of the first of these variables that is set."""
    first, *others = names.split()
    value = next((variables[name] for name in names.split() if name in variables), "")
    if not value.isdigit():
        missing = f"is not set, nor is {' or '.join(others)}" if others else "is not set"
        raise AccelError(
            f"A rank of a job for {launcher}", because=f"{first} {f'is {value!r}' if value else missing}",
            do="Start launch.sh in the job's folder with a launcher that sets this variable, or use --launcher torchrun.",
        )  # fmt: skip
    return int(value)


def _of_node(described: str, node: int) -> int:
    """SLURM writes the tasks of all nodes as 4(x2),1.

    >>> _of_node("4(x2),1", 2)
    1
    """
    counts: list[int] = []
    for tasks, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", described):
        counts += [int(tasks)] * int(times or 1)
    return counts[node] if node < len(counts) else 1
