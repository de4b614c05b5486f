"""What a notebook has, as files that do not need accel: `accel.export` and `accel.report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel.exporting.cluster_scripts import ClusterScripts
    from accel.exporting.export import Export
    from accel.exporting.launcher import Launcher
    from accel.exporting.program import Program
    from accel.plans.plan import Plan
    from accel.workbench.report_file import ReportFile


def export(
    to: str = "cell", plan: str | Plan | None = None, *, n: int | None = None, on: str = "", hosts: str = "",
    nodes: int | None = None, partition: str = "", gpus_per_node: int | None = None, time: str = "",
) -> Export | Launcher | Program | ClusterScripts:  # fmt: skip
    """Write what is kept as plain PyTorch that does not need accel.

    Args:
        to: The form: "cell" is your own cell with the accelerations written in; "shell", "dockerfile" and "apptainer" are files
            that start a program with a plan's variables, libraries and interpreter; "script" is the
            whole training as one program; "torchrun", "mpirun" and "slurm" are the same with a script that starts it on ranks.
        plan: Of "shell", "dockerfile" and "apptainer": what to start with.
        n: Ranks of "torchrun", "mpirun" and "slurm".
        on: A cluster that accel.toml describes, on which they run.
        hosts: Machines with ranks on each, such as "h1:4,h2:4".
        nodes: Machines to ask SLURM for.
        partition: SLURM's queue.
        gpus_per_node: GPUs to ask SLURM for on each machine.
        time: How long the job may take, such as "1:30:00".

    Returns:
        The source, with `.code` and what could not be written; with nothing kept, the cell as it is. For "script" a program,
        which `.save("train.py")` writes; for "torchrun", "mpirun" and "slurm" a program and a script: `.save("folder")`.

    Raises:
        AccelError: No training cell was profiled, the cell cannot be parsed, or `to` is no known form.

    Examples:
        >>> print(accel.export())

    Method: the cell's syntax tree is rewritten by libcst, which keeps comments and layout (decision 1).
    """
    from accel.current import current_workbench

    places = {
        "on": on, "hosts": hosts, "nodes": nodes, "partition": partition, "gpus_per_node": gpus_per_node, "time": time
    }  # fmt: skip
    return current_workbench().export(to, plan, n=n, **places)


def report(file: str | Path = "accel_report.html", *, force: bool = False) -> ReportFile:
    """Write one HTML file to pass on: what is live and its plain code, the trials, the profile, the machine.

    It is complete in itself, light or dark as its reader's browser is. An earlier report of that name is replaced.

    Args:
        file: The file to write.
        force: Replace a file that is no report, too.

    Returns:
        Where it is, and what is in it.

    Raises:
        AccelError: Nothing was profiled yet, the file is no report of accel, or it cannot be written.

    Examples:
        >>> print(accel.report("report.html"))
    """
    from accel.current import current_workbench
    from accel.workbench.report_file import write_report

    return write_report(current_workbench(), file, force=force)
