"""torchrun: torch's own launcher, with its elastic restarts; on this machine, or one on each host by a remote shell."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import socket
from dataclasses import dataclass

from accel.distributed.jobs.cluster import Cluster, LauncherName
from accel.distributed.jobs.job_folder import JobDescription, JobFolder
from accel.distributed.jobs.launchers.here import ProcessHere
from accel.distributed.jobs.launchers.launcher import START, Blame, framed, setup_of, words
from accel.errors import AccelError

_FIRST_PORT, _PORTS = 20_000, 10_000
_KILLED = r"rank\s*: (?P<rank>\d+).*\n\s*exitcode\s*: -\d+ \(pid: \d+\)\s+\((?P<signal>SIG\w+)\)"
_NO_PORT = (
    "export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1  # its ranks meet by a file, and no port is opened for them"
)
_QUIET = "export OMP_NUM_THREADS=1  # torchrun says much where it is not set; each rank sets its own"


@dataclass(frozen=True)
class Torchrun(ProcessHere):
    """`python -m torch.distributed.run`, which starts as many ranks on each host as asked for."""

    name: LauncherName = "torchrun"
    patience_s: float = 45.0  # it waits 30 s for ranks that it ends

    def check(self, cluster: Cluster) -> None:
        """Other hosts need a remote shell."""
        if _is_elsewhere(cluster) and shutil.which(cluster.remote_shell) is None:
            raise AccelError(
                "--launcher torchrun on other hosts", because=f"there is no {cluster.remote_shell} to start it there",
                do="Install it, or name another with remote_shell = in accel.toml.",
            )  # fmt: skip

    def script(self, folder: JobFolder, description: JobDescription) -> str:
        """One torchrun, or one on each host at the same time."""
        cluster = description.cluster
        if not _is_elsewhere(cluster):
            line = words(
                *_command(description, cluster.ranks), "--rdzv-backend", "c10d", "--rdzv-conf", "store_type=file",
                "--rdzv-endpoint",
            )  # fmt: skip
            return framed(folder, cluster, [
                _QUIET, _NO_PORT, f'{line} "$PWD/rendezvous-$start" {words(*cluster.options, str(folder.script))}',
            ])  # fmt: skip
        first = cluster.hosts[0][0]
        lines = [_QUIET, "pids=()"]
        for number, (host, ranks) in enumerate(cluster.hosts):
            there = words(
                *_command(description, ranks), "--nnodes", str(len(cluster.hosts)), "--node-rank", str(number),
                "--local-addr", host, "--rdzv-backend", "c10d", "--rdzv-id", folder.name,
                "--rdzv-endpoint", f"{first}:{_port(folder)}", *cluster.options, str(folder.script),
            )  # fmt: skip
            before = shlex.quote("; ".join([*setup_of(cluster), "export OMP_NUM_THREADS=1", ""]))
            lines += [
                f'{words(cluster.remote_shell, host)} {before}"export {START}=$start; "{shlex.quote(f"exec {there}")} &',
                'pids+=("$!")',
            ]
        lines += [
            "status=0",
            'for pid in "${pids[@]}"; do wait "$pid" || status=$?; done',
            '(exit "$status")',
        ]
        return framed(folder, cluster, lines)

    def blames(self, text: str) -> Blame | None:
        """The rank that a signal ended; torchrun itself sends SIGTERM to the others, and may take one of them for the cause."""
        killed = [each for each in re.finditer(_KILLED, text) if each["signal"] != "SIGTERM"]
        return Blame(int(killed[-1]["rank"]), f"killed by {killed[-1]['signal']}") if killed else None


def _is_elsewhere(cluster: Cluster) -> bool:
    """Whether one of the hosts is another machine than this, or there are several."""
    here = ("localhost", "127.0.0.1", socket.gethostname())
    return len(cluster.hosts) > 1 or any(host not in here for host, _ in cluster.hosts)


def _command(description: JobDescription, ranks: int) -> list[str]:
    return [
        description.cluster.interpreter, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks),
        "--max-restarts", str(description.max_restarts),
    ]  # fmt: skip


def _port(folder: JobFolder) -> int:
    """The same for all hosts, and another for each job."""
    digest = hashlib.blake2b(folder.name.encode(), digest_size=4).digest()
    return _FIRST_PORT + int.from_bytes(digest, "big") % _PORTS
