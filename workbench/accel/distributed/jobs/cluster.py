"""Where a job runs: a launcher, hosts or nodes, and what the place needs."""

from __future__ import annotations

import re
import sys
from typing import Literal, get_args

import msgspec

from accel.bounds import check_count
from accel.errors import AccelError, UnknownName

LauncherName = Literal["torchrun", "mpirun", "slurm"]
LAUNCHERS: tuple[str, ...] = get_args(LauncherName)
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NO_LIMIT = ("unlimited", "infinite")
_TIME = re.compile(rf"(\d+-)?\d+(:\d{{2}}){{0,2}}|{'|'.join(NO_LIMIT)}", re.IGNORECASE)


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One launcher and the machines that it starts ranks on.

    >>> Cluster(launcher="slurm", nodes=2, ranks_per_node=8, gpus_per_node=8, time="1:00:00").ranks
    16
    >>> Cluster(launcher="mpirun", hosts=(("node1", 4), ("node2", 4))).ranks
    8

    Args:
        launcher: What starts the ranks.
        hosts: Names of machines with the number of ranks on each; empty: this machine, or what SLURM gives.
        nodes: Machines to ask SLURM for.
        ranks_per_node: Ranks on each of them, and on this machine where no hosts are named; empty: one a GPU, else one.
        partition: SLURM's queue; empty: its default.
        gpus_per_node: GPUs to ask SLURM for on each node; 0: none.
        time: How long the job may take, as SLURM writes it; empty: the partition's default.
        folder: Where job folders are made, on a disk that all machines see; empty: accel-jobs beside the notebook.
        python: The interpreter there; empty: the notebook's own.
        interface: The network interface that ranks talk over; empty: the one that leads to the first host.
        remote_shell: The program that runs a command on another host, called as `ssh` is.
        options: More words for the launcher, as `--exclusive`.
        setup: Lines of shell before the ranks start, as `module load cuda`.
        env: Environment variables of the ranks.
    """

    launcher: LauncherName = "torchrun"
    hosts: tuple[tuple[str, int], ...] = ()
    nodes: int = 1
    ranks_per_node: int | None = None
    partition: str = ""
    gpus_per_node: int = 0
    time: str = ""
    folder: str = ""
    python: str = ""
    interface: str = ""
    remote_shell: str = "ssh"
    options: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    env: dict[str, str] = {}

    def __post_init__(self) -> None:
        if self.launcher not in LAUNCHERS:
            raise UnknownName("launcher", self.launcher, LAUNCHERS)
        for name, count in (("nodes", self.nodes), ("ranks_per_node", self.ranks_of_node)):
            check_count(f"{name} {count}", count)
        self._check_together()
        for host, ranks in self.hosts:
            check_host(host)
            check_count(f"{host}:{ranks}", ranks, of="ranks")
        for text in (*self.options, *self.env, *self.env.values(), self.folder, self.python):
            if not text.isprintable():
                raise AccelError(
                    f"The setting {text!r}", because="a setting of a cluster is one line", do="Write each word for itself."
                )  # fmt: skip
        for name in self.env:
            if not _VARIABLE.fullmatch(name):
                raise AccelError(
                    f"The variable {name!r}", because="a variable has letters, digits and _", do="Write for example NCCL_DEBUG."
                )  # fmt: skip
        for given in (*self.partition.split(","), self.interface):
            if given:
                check_host(given)
        if self.time and not _TIME.fullmatch(self.time):
            raise AccelError(
                f"--time {self.time}", because="that is no time as SLURM writes it",
                do="Write a time such as 1:30:00, 2-0:00:00 or 90 (minutes), or UNLIMITED.",
            )  # fmt: skip

    def _check_together(self) -> None:
        """Machines are named to torchrun and mpirun, and counted to SLURM."""
        if self.launcher == "slurm" and self.hosts:
            raise AccelError(
                "A cluster with launcher slurm and hosts", because="SLURM chooses the machines",
                do="Say how many: nodes = 2. To name some, use options = [\"--nodelist=h1,h2\"].",
            )  # fmt: skip
        if self.launcher != "slurm" and self.nodes > 1:
            raise AccelError(
                f"{self.nodes} nodes with {self.launcher}", because="only SLURM gives machines by number",
                do="Name the machines: --hosts h1:4,h2:4, or hosts = \"h1:4,h2:4\" in accel.toml.",
            )  # fmt: skip

    @property
    def ranks_of_node(self) -> int:
        """Ranks on each node."""
        return self.ranks_per_node if self.ranks_per_node is not None else self.gpus_per_node or 1

    @property
    def ranks(self) -> int:
        """Ranks of a job."""
        return sum(ranks for _, ranks in self.hosts) if self.hosts else self.nodes * self.ranks_of_node

    @property
    def interpreter(self) -> str:
        """What runs the ranks."""
        return self.python or sys.executable

    @property
    def where(self) -> str:
        """In words, for a list of jobs."""
        if self.hosts:
            return f"{self.launcher} on {', '.join(host for host, _ in self.hosts)}"
        if self.launcher == "slurm":
            return f"slurm, {self.nodes} {'node' if self.nodes == 1 else 'nodes'}"
        return f"{self.launcher} on this machine"


def check_host(name: str) -> str:
    """The name, if it is one that a shell, a launcher and a network take; raises AccelError.

    >>> check_host("node-1.cluster")
    'node-1.cluster'
    """
    if not _HOST.fullmatch(name):
        raise AccelError(
            f"The name {name!r}", because="names of hosts, partitions and interfaces have letters, digits, dots, dashes and _",
            do="Write for example node1.",
        )  # fmt: skip
    return name


def hosts_of(text: str) -> tuple[tuple[str, int], ...]:
    """Hosts with their ranks, one each where no number is given.

    >>> hosts_of("h1:4,h2")
    (('h1', 4), ('h2', 1))
    """
    found = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, _, ranks = word.partition(":")
        if ranks and not ranks.isdigit():
            raise AccelError(
                f"--hosts {text}",
                because=f"{ranks!r} is no number of ranks",
                do="Write for example h1:4,h2:4.",
            )
        if not _HOST.fullmatch(name):
            raise AccelError(
                f"--hosts {text}", because=f"{name!r} is no name of a host", do="Write names with commas between: h1:4,h2:4."
            )  # fmt: skip
        found.append((name, int(ranks or 1)))
    if len({name for name, _ in found}) < len(found):
        raise AccelError(f"--hosts {text}", because="a host is named twice", do="Name each host once.")
    return tuple(found)
