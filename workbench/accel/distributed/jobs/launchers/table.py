"""The launchers by name."""

from __future__ import annotations

from accel.distributed.jobs.cluster import LauncherName
from accel.distributed.jobs.launchers.launcher import Launcher
from accel.distributed.jobs.launchers.mpirun import Mpirun
from accel.distributed.jobs.launchers.slurm import Slurm
from accel.distributed.jobs.launchers.torchrun import Torchrun

_LAUNCHERS: dict[LauncherName, Launcher] = {"torchrun": Torchrun(), "mpirun": Mpirun(), "slurm": Slurm()}


def launcher_of(name: LauncherName) -> Launcher:
    """The one of that name.

    >>> launcher_of("mpirun").name
    'mpirun'
    """
    return _LAUNCHERS[name]
