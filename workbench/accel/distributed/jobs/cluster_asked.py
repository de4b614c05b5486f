"""Where a job is to run, from the options of a command or a function."""

from __future__ import annotations

import msgspec

from accel.distributed.jobs.cluster import LAUNCHERS, Cluster, hosts_of
from accel.distributed.jobs.cluster_file import cluster_named
from accel.errors import AccelError, UnknownName

LOCAL = "local"
ASKED = (
    "n",
    "on",
    "launcher",
    "hosts",
    "nodes",
    "partition",
    "gpus_per_node",
    "time",
)  # the names of what it takes


def cluster_asked(
    *, n: int | None, on: str = "", launcher: str = "", hosts: str = "", nodes: int | None = None, partition: str = "",
    gpus_per_node: int | None = None, time: str = "",
) -> Cluster | None:  # fmt: skip
    """The cluster with what was asked for on top; None for ranks of this notebook.

    >>> cluster_asked(n=4, launcher="torchrun").ranks
    4
    >>> cluster_asked(n=None, on="mycluster", nodes=4)

    Raises AccelError where what was asked for does not go together.
    """
    asked = {
        "hosts": hosts,
        "nodes": nodes,
        "partition": partition,
        "gpus-per-node": gpus_per_node,
        "time": time,
    }
    given = [name for name, value in asked.items() if value]
    if not on and launcher in ("", LOCAL):
        if given:
            raise AccelError(
                f"%%accel ddp --{given[0]} {asked[given[0]]}", because="ranks of the notebook's own run on this machine",
                do="Say what starts them there: --launcher torchrun, mpirun or slurm; or --on and a cluster of accel.toml.",
            )  # fmt: skip
        return None
    if launcher and launcher not in LAUNCHERS:
        raise UnknownName("launcher", launcher, [LOCAL, *LAUNCHERS])
    cluster = cluster_named(on) if on else Cluster(launcher=launcher)  # type: ignore[arg-type]
    if launcher and launcher != cluster.launcher:
        cluster = msgspec.structs.replace(cluster, launcher=launcher)  # which says what does not go with it
    _check_words(cluster.launcher, given)
    changes = {
        "hosts": hosts_of(hosts) if hosts else None, "nodes": nodes, "partition": partition or None,
        "gpus_per_node": gpus_per_node, "time": time or None,
    }  # fmt: skip
    cluster = msgspec.structs.replace(
        cluster, **{name: value for name, value in changes.items() if value is not None}
    )
    return _with_ranks(cluster, n, is_named=bool(on))


def _check_words(launcher: str, given: list[str]) -> None:
    of_slurm = [name for name in given if name != "hosts"]
    if launcher != "slurm" and of_slurm:
        raise AccelError(
            f"--launcher {launcher} --{of_slurm[0]}", because="only SLURM gives machines by number, queue and time",
            do="Name the machines: --hosts h1:4,h2:4. Or use --launcher slurm.",
        )  # fmt: skip
    if launcher == "slurm" and "hosts" in given:
        raise AccelError(
            "--launcher slurm --hosts", because="SLURM chooses the machines",
            do="Say how many: --nodes 2. To name some, put options = [\"--nodelist=h1,h2\"] into accel.toml.",
        )  # fmt: skip


def _with_ranks(cluster: Cluster, n: int | None, *, is_named: bool) -> Cluster:
    """With n ranks in all, shared out evenly; by itself as many as the cluster has, and two on this machine."""
    if n is None:
        alone = not is_named and not cluster.hosts and cluster.ranks == 1 and cluster.ranks_per_node is None
        return msgspec.structs.replace(cluster, ranks_per_node=2) if alone else cluster
    if cluster.hosts:
        if n != cluster.ranks:
            raise AccelError(
                f"-n {n}", because=f"the hosts take {cluster.ranks} ranks", do="Leave -n out, or change the numbers of --hosts."
            )  # fmt: skip
        return cluster
    if n % cluster.nodes:
        raise AccelError(
            f"-n {n} on {cluster.nodes} nodes", because="each node takes as many ranks as the others",
            do=f"Use a multiple of {cluster.nodes}.",
        )  # fmt: skip
    return msgspec.structs.replace(cluster, ranks_per_node=n // cluster.nodes)
