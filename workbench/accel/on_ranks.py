"""What trains on ranks as functions: `accel.ddp` and `accel.sweep`, by the options of the commands of those names."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel.distributed.cells.watched_run import WatchedRun
    from accel.distributed.data_parallel.shares import BatchMeans
    from accel.distributed.first_step.verdict import Check
    from accel.distributed.oneccl.state import OneCcl
    from accel.distributed.ranks.rank_devices import Backend
    from accel.measuring.sweep import Sweep
    from accel.plans.plan import Plan


def ddp(
    cell: str | Callable[[], Any], *,
    n: int | None = None, threads: int | None = None, backend: Backend = "auto", gpus: str = "auto",
    batch: BatchMeans = "per-rank", check: Check = "on", loaders: str | Iterable[str] = (), plan: str | Plan = "",
    timeout_s: float = 60.0, all_output: bool = False, discard: bool = False, sync_batchnorm: bool = False,
    checkpoint: str | None = None, every: int = 100, max_restarts: int = 0,
    bucket_mb: float | None = None, static_graph: bool = False, compress: str = "none",
    communication: bool = False, wait: bool = True, on: str = "", launcher: str = "", hosts: str = "",
    nodes: int | None = None, partition: str = "", gpus_per_node: int | None = None, time: str = "",
) -> Any:  # fmt: skip
    """Train on several processes, of this machine or of a cluster, data-parallel; the trained state comes back to your objects.

    What the function reaches comes home too: your variables, its closure, its object and arguments bound with
    functools.partial; but not the variables of a module that it was imported from. In a notebook, put `%%accel ddp` above
    the cell.

    Args:
        cell: A function without arguments, or source text.
        n: Number of ranks. None: 2, or those of the cluster.
        threads: Threads of each rank. None: what the CPUs allow.
        backend: "auto", "gloo", "nccl" or "ccl" (oneCCL, experimental).
        gpus: Which GPUs to use, such as "0,3"; "auto" takes those that are joined best.
        batch: "per-rank": each rank takes a batch of yours. "global": your batches are shared among the ranks.
        check: With batch "global", compare the first step with that of one process: "on" warns where they differ, "strict" stops
            there, "off" compares nothing.
        loaders: Names of the loaders to share out. (): those that train.
        plan: Accelerations for every rank, such as "autocast+compile_model".
        timeout_s: A rank that neither trains nor prints for so many seconds is stuck.
        all_output: Show the prints of all ranks, not only of rank 0.
        discard: Leave your objects as they were.
        sync_batchnorm: Compute the statistics of BatchNorm over all ranks.
        checkpoint: A folder to write checkpoints to, and to go on from.
        every: Steps between two checkpoints.
        max_restarts: How often to go on by itself after a rank died.
        bucket_mb: Size of DDP's buckets of gradients in MB. None: torch's 25.
        static_graph: Let DDP rely on every step using the same parameters.
        compress: "none", "fp16", "bf16" or "powersgd:RANK".
        communication: Watch ten steps and report how gradients are exchanged.
        wait: False returns a DdpRun at once.
        on: A cluster that accel.toml describes.
        launcher: "local" (this notebook), "torchrun", "mpirun" or "slurm"; the last three run a job.
        hosts: Machines for torchrun and mpirun with ranks on each, such as "h1:4,h2:4".
        nodes: Machines to ask SLURM for.
        partition: SLURM's queue.
        gpus_per_node: GPUs to ask SLURM for on each machine.
        time: How long the job may take, such as "1:30:00".

    Returns:
        For a function what it returned in rank 0, for source text the DdpResult, with `wait=False` the DdpRun.

    Raises:
        AccelError: A rank failed (with its traceback in your lines), or an option makes no sense.

    Examples:
        >>> accel.ddp("train(model, loader, criterion, optimizer)", n=2, batch="global")
        >>> def two_epochs():
        ...     return [train(model, loader, criterion, optimizer) for _ in range(2)]
        >>> accel.ddp(two_epochs, n=2)

    Method: DistributedDataParallel (Li et al., "PyTorch Distributed", VLDB 2020).
    """
    from accel.commands.command import names
    from accel.commands.line.ticking import ticking
    from accel.current import current_workbench
    from accel.distributed.cells.run_options import RunOptions
    from accel.distributed.cells.run_pages import run_pages
    from accel.distributed.jobs.cluster_asked import cluster_asked
    from accel.errors import AccelError
    from accel.workbench.ddp_options import DdpOptions

    if checkpoint is not None and not checkpoint.strip():
        raise AccelError(
            f"--checkpoint {checkpoint!r}", because="it names no folder",
            do="Write --checkpoint DIR, or leave it out to train without checkpoints.",
        )  # fmt: skip
    run = RunOptions(
        batch=batch, check=check,
        loaders=names(loaders) if isinstance(loaders, str) else tuple(loaders),
        plan=str(plan), timeout_s=timeout_s, discard=discard, sync_batchnorm=sync_batchnorm,
        checkpoint=checkpoint or "", every=every, max_restarts=max_restarts,
        bucket_mb=bucket_mb, static_graph=static_graph, compress=compress, communication=communication,
    )  # fmt: skip
    cluster = cluster_asked(
        n=n, on=on, launcher=launcher, hosts=hosts, nodes=nodes, partition=partition, gpus_per_node=gpus_per_node, time=time,
    )  # fmt: skip
    options = DdpOptions(
        cluster.ranks if cluster else n or 2, threads, backend, gpus, all_output, run, cluster
    )
    ranks, pages = current_workbench().ranks, run_pages()
    if not wait:
        return ranks.begin(cell, options, on_over=pages.when_over if pages is not None else None)
    if pages is not None:
        return ranks.run_printing(cell, options, page=pages.page())
    now = ["Starting ranks."]
    with ticking(lambda: now[0]) as over:
        return ranks.run_printing(cell, options, page=_Beginning(now, over))


class _Beginning:
    """Shows how a run starts where its lanes are not shown; from its first step on the run prints for itself."""

    def __init__(self, now: list[str], over: threading.Event) -> None:
        self._now, self._over = now, over

    def show(self, run: WatchedRun) -> None:
        self._now[:] = [run.line]
        if any(lane.step for lane in run.lanes):
            self._over.set()


def oneccl(*, build: bool = False) -> OneCcl:
    """Say whether ranks can talk by oneCCL here (`backend="ccl"`, experimental).

    Args:
        build: Build it: download Intel's wheels and compile a backend for this torch.

    Returns:
        Whether it is built, and where.

    Raises:
        AccelError: It cannot be built here: no compiler, no network, or a system that oneCCL does not know.

    Examples:
        >>> print(accel.oneccl())
    """
    from accel.distributed.oneccl.state import oneccl_here

    return oneccl_here(build=build)


def sweep(
    cell: str | None = None, *,
    processes: int | str | Iterable[int] = (), threads: int | str | Iterable[int] = (), backends: str | Iterable[str] = (),
    gpus: int | str | Iterable[int] = (), rounds: int = 1, steps: int | None = None, budget_s: float | None = None,
    batch: BatchMeans = "per-rank", held_out: Any = None, metric: Any = None, timeout_s: float = 60.0,
) -> Sweep:  # fmt: skip
    """Train with each number of processes and threads, one after the other, on copies, and compare time and quality.

    Each configuration has CPUs of its own. One that does not fit, or fails, is a row with the reason. Ctrl-C gives what was
    measured until then.

    Args:
        cell: Source text. None: the profiled cell.
        processes: Numbers of processes, as (1, 2) or "1,2" or "1..8".
        threads: Numbers of threads a process.
        backends: What ranks talk by, such as "gloo,nccl".
        gpus: Numbers of GPUs, one process each.
        rounds: How often each configuration trains, in a new order each time. From 3 on there are intervals.
        steps: Bound each run by so many steps; compares samples a second.
        budget_s: Bound each run by so many seconds; compares samples a second.
        batch: "per-rank" or "global", as in `ddp`.
        held_out: The loader that quality is measured on, or its name.
        metric: "accuracy", "loss", or a function of (model, loader).
        timeout_s: A rank that is silent for so many seconds is stuck.

    Returns:
        The table of time, speed-up, efficiency and quality, with the knee; `.figure()`, `.to_dataframe()`, `.to_dict()`.

    Raises:
        AccelError: There is no workload, a trial or a run goes on, or an option makes no sense.

    Examples:
        >>> print(accel.sweep("train(model, loader, criterion, optimizer)", processes=(1, 2), threads=(1,)))
    """
    from accel.commands.line.ticking import ticking
    from accel.current import current_workbench
    from accel.measuring.progress import sweep_line
    from accel.workbench.rank_sweep import sweep_of

    now, began = ["starting"], time.monotonic()
    with ticking(lambda: sweep_line(now[0], time.monotonic() - began)):
        return sweep_of(
            current_workbench(), cell, processes=processes, threads=threads, backends=backends, gpus=gpus, rounds=rounds,
            steps=steps, budget_s=budget_s, batch=batch, held_out=held_out, metric=metric, timeout_s=timeout_s,
            show=lambda _sweep, line: now.__setitem__(0, line),
        )  # fmt: skip
