"""What is about many machines as functions: their jobs, what joins their ranks, and what more of them would bring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from accel.distributed.scaling.cluster_view import ClusterView
    from accel.distributed.scaling.forecast import ScalingForecast


def jobs(
    does: Literal["list", "logs", "stop", "cancel", "home", "remove"] = "list", name: str | None = None, *,
    anyway: bool = False,
) -> Any:  # fmt: skip
    """List the jobs of torchrun, mpirun and SLURM, or do something with one of them.

    A job goes on when its notebook ends; another one that has the same variables can bring its state home.

    Args:
        does: "logs": what it printed. "stop": all ranks end after the same step. "cancel": end it now. "home": wait for it, and
            put its state into your objects. "remove": its folder.
        name: A job, by its whole name or its last letters.
        anyway: Remove a job whose state is not home yet; bring home one whose state is there already.

    Returns:
        The jobs, with "logs" what one printed, with "home" its DdpResult.

    Raises:
        UnknownName: There is no such job. AccelError: It failed, or your notebook lacks what its state belongs to.

    Examples:
        >>> print(accel.jobs())
    """
    from accel.current import current_workbench
    from accel.distributed.cells.run_pages import run_pages
    from accel.distributed.jobs.jobs_here import jobs_asked

    pages = run_pages()
    page = pages.page() if pages is not None else None
    return jobs_asked(
        does, name, lambda folder: current_workbench().ranks.take_home(folder, page), anyway=anyway
    )  # fmt: skip


def cluster(
    *, n: int | None = None, on: str = "", launcher: str = "", hosts: str = "", nodes: int | None = None,
    partition: str = "", gpus_per_node: int | None = None, time: str = "",
) -> ClusterView:  # fmt: skip
    """Start ranks, see what they run on and talk over, and measure all-reduces between them.

    Where a training cell was profiled, it also predicts how much faster that cell would train on so many ranks and more.

    Args:
        n: Ranks. None: 2 of this notebook, or those of the cluster.
        on: A cluster that accel.toml describes.
        launcher: "local" (this machine), "torchrun", "mpirun" or "slurm".
        hosts: Machines for torchrun and mpirun with ranks on each, such as "h1:4,h2:4".
        nodes: Machines to ask SLURM for.
        partition: SLURM's queue.
        gpus_per_node: GPUs to ask SLURM for on each machine.
        time: How long it may take, such as "0:10:00".

    Returns:
        Hosts with their interfaces, the seconds of all-reduces by size, the link that explains them, and the predicted speed-up.

    Raises:
        AccelError: A rank failed, or what was asked for does not go together.

    Examples:
        >>> print(accel.cluster(n=2))

    Method: an all-reduce as a ring of messages with a latency and a bandwidth each (docs/explanation/scaling.md).
    """
    from accel.commands.line.ticking import saying
    from accel.current import current_workbench
    from accel.distributed.jobs.cluster_asked import cluster_asked
    from accel.workbench.cluster_probe import probe_cluster

    asked = cluster_asked(
        n=n, on=on, launcher=launcher, hosts=hosts, nodes=nodes, partition=partition, gpus_per_node=gpus_per_node, time=time,
    )  # fmt: skip
    with saying("accel.cluster()"):
        return probe_cluster(current_workbench(), asked, n or 2)


def what_if(
    machines: int | str | Iterable[int] = (1, 2, 4, 8, 16, 32, 64), *, ranks_per_machine: int = 8, inside: str = "nvlink",
    network: str = "200gb", rails: int = 1, step_ms: float | None = None, gradient_mb: float | None = None,
    bucket_mb: float = 25.0, measured: str | Mapping[int, float] = "",
) -> ScalingForecast:  # fmt: skip
    """Predict a data-parallel training on machines that are not there, up to thousands.

    The step is that of the profiled cell, unless you give one. Each rank trains on a batch of its own, as in `accel.ddp`.

    Args:
        machines: Numbers of machines, as (1, 8, 64) or "1,8,64".
        ranks_per_machine: Ranks, or GPUs, of each.
        inside: What joins them in a machine: "nvlink", "pcie" or "memory" (CPUs).
        network: What joins machines: "400gb", "200gb", "100gb" (InfiniBand or RoCE), "25gb", "10gb" or "1gb" (Ethernet).
        rails: Network cards of each machine.
        step_ms: A step of one rank without any exchange. None: that of the profiled cell.
        gradient_mb: Megabytes of gradients. None: those of the profiled cell's models.
        bucket_mb: Size of DDP's buckets of gradients.
        measured: Seconds of this training on several numbers of ranks of one machine, 1 among them, as "1:707,2:393,4:208":
            what it loses inside a machine is taken from there, and `inside` has no part.

    Returns:
        For each number of machines the speed-up over one rank with an interval, the efficiency and the parts of a step; `.line`
        names the largest number that still pays.

    Raises:
        UnknownName: There is no such link. AccelError: No cell was profiled, and no step was given.

    Examples:
        >>> print(accel.what_if("1,8,64", step_ms=120, gradient_mb=100))

    Method: rings and trees over links of a latency and a bandwidth, hidden behind the backward pass bucket by bucket
    (docs/explanation/scaling.md says what is assumed, and how far it was off).
    """
    from accel.current import current_workbench
    from accel.workbench.step_work import Wish, forecast_for

    return forecast_for(current_workbench(), Wish(
        machines, ranks_per_machine, inside, network, rails, step_ms, gradient_mb, bucket_mb, measured
    ))  # fmt: skip
