"""Open MPI's mpirun: it starts the ranks, on this machine or on hosts; what they exchange goes by gloo or NCCL all the same."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache

from accel.distributed.jobs.cluster import Cluster, LauncherName
from accel.distributed.jobs.job_folder import JobDescription, JobFolder
from accel.distributed.jobs.launchers.here import ProcessHere
from accel.distributed.jobs.launchers.launcher import START, Blame, framed, last_blame, words
from accel.errors import AccelError


@dataclass(frozen=True)
class Mpirun(ProcessHere):
    """`mpirun -n 8 --host h1:4,h2:4`."""

    name: LauncherName = "mpirun"
    patience_s: float = 15.0

    def check(self, cluster: Cluster) -> None:
        """It has to be here, and Open MPI's."""
        version_of(program())
        if len(cluster.hosts) > 1 and shutil.which(cluster.remote_shell) is None:
            raise AccelError(
                "--launcher mpirun on several hosts", because=f"there is no {cluster.remote_shell} to start ranks there",
                do="Install it, or name another with remote_shell = in accel.toml.",
            )  # fmt: skip

    def script(self, folder: JobFolder, description: JobDescription) -> str:
        """One line of mpirun."""
        cluster, mpirun = description.cluster, program()
        line = [mpirun, "-n", str(cluster.ranks), "--oversubscribe", "--bind-to", "none"]
        if os.geteuid() == 0:
            line.append("--allow-run-as-root")
        if cluster.hosts:
            line += ["--host", ",".join(f"{host}:{ranks}" for host, ranks in cluster.hosts)]
            line += _agent(version_of(mpirun), cluster.remote_shell)
        first = cluster.hosts[0][0] if len(cluster.hosts) > 1 else "127.0.0.1"
        line += ["-x", f"MASTER_ADDR={first}", "-x", START]
        for name in cluster.env:
            line += ["-x", name]
        rank = [cluster.interpreter, "-u", str(folder.script)]
        note = []
        if cluster.setup:  # on each machine
            note = ["# shellcheck disable=SC2016  # the ranks' own bash expands that"]
            rank = ["bash", "-c", "\n".join([*cluster.setup, 'exec "$0" "$@"']), *rank]
        return framed(folder, cluster, [*note, words(*line, *cluster.options, *rank)])

    def blames(self, text: str) -> Blame | None:
        """The process that it noticed."""
        return last_blame(
            r"process rank (?P<rank>\d+) with[^\0]*?(?P<how>exited\s+on\s+signal\s+\d+\s+\(\w+\))", text
        )


def program() -> str:
    """Where it is; raises AccelError where it is not."""
    found = shutil.which("mpirun")
    if found is None:
        raise AccelError(
            "--launcher mpirun", because="there is no mpirun on PATH",
            do="Install Open MPI (Debian: openmpi-bin), load its module, or use --launcher torchrun.",
        )  # fmt: skip
    return found


@cache
def version_of(mpirun: str) -> int:
    """The first number of Open MPI's version; raises AccelError for another MPI, whose words differ.

    >>> version_of("/usr/bin/mpirun")
    4
    """
    said = subprocess.run(
        [mpirun, "--version"], capture_output=True, text=True, timeout=30, check=False
    ).stdout
    version = re.search(r"\(Open MPI\) (\d+)", said)
    if version is None:
        raise AccelError(
            "--launcher mpirun", because=f"{mpirun} is not Open MPI's: {said.strip().splitlines()[:1] or 'it says nothing'}",
            do="Put Open MPI's first on PATH, or use --launcher torchrun.",
        )  # fmt: skip
    return int(version[1])


def _agent(version: int, remote_shell: str) -> list[str]:
    """How it reaches other hosts; the names changed with version 5."""
    if remote_shell == "ssh":
        return []
    return (
        ["--prtemca", "plm_ssh_agent", remote_shell]
        if version >= 5
        else ["--mca", "plm_rsh_agent", remote_shell]
    )
