"""A cluster seen and measured by ranks that are started there for it, with what it would make of the profiled cell."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from accel.distributed.jobs.cluster import Cluster
from accel.distributed.ranks.run_outcome import THIS_MACHINE
from accel.distributed.scaling.cluster_view import ClusterView, cluster_view
from accel.distributed.scaling.probe import Probed, probe
from accel.doing import doing
from accel.errors import AccelError

if TYPE_CHECKING:
    from accel.workbench.workbench import Workbench

_TIMEOUT_S = 120.0


def probe_cluster(workbench: Workbench | None, cluster: Cluster | None, n: int) -> ClusterView:
    """Start the ranks, let them measure, end them; without a cluster on this machine.

    >>> probe_cluster(None, None, 2).link.bytes_per_s
    """
    where = cluster.where if cluster is not None else THIS_MACHINE
    ranks = cluster.ranks if cluster is not None else n
    if ranks < 2:
        raise AccelError(
            "%accel cluster -n 1", because="there is no other rank to talk to", do="Use two ranks or more: -n 2."
        )  # fmt: skip
    alone = workbench.ranks.alone("%accel cluster") if workbench is not None else nullcontext()
    with alone, doing(f"starting {ranks} ranks, and measuring between them"):
        found = _on_job(cluster) if cluster is not None else _here(n)
    view = cluster_view(where, found)
    if workbench is None or workbench.workload is None or not workbench.workload.has_training_step:
        return view
    from accel.distributed.scaling.yardstick import yardstick_s
    from accel.workbench.step_work import step_work

    device = workbench.workload.objects().device_type
    measured = tuple(workbench.ranks.measured_speed_ups(where).items())
    return replace(view, work=step_work(workbench), own_yardstick_s=yardstick_s(device), measured=measured)


def _on_job(cluster: Cluster) -> list[Probed]:
    from accel.distributed.jobs.job_ranks import JobRanks
    from accel.distributed.ranks.rank_pool import run_function

    return run_function(JobRanks(cluster, is_kept=False), probe, timeout_s=_TIMEOUT_S, backend="auto")


def _here(n: int) -> list[Probed]:
    from accel.distributed.ranks.rank_devices import rank_devices
    from accel.distributed.ranks.rank_pool import RankPool, run_function

    devices = rank_devices(n)
    pool = RankPool(n, environments=[dict(each) for each in devices.environments])
    try:
        return run_function(pool, probe, timeout_s=_TIMEOUT_S, backend=devices.backend)
    finally:
        pool.close()
