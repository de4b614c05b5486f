"""A real SLURM on this machine: its controller and two nodes, on loopback, taken down by their pids."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from accel.distributed.jobs.cluster import Cluster

NODES = ("n1", "n2")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "unshare")
CONF = """
ClusterName=bed
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
ProctrackType=proctrack/pgid
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmctldTimeout=30
SlurmdTimeout={node_timeout_s}
KillWait=5
MinJobAge=300
InactiveLimit=0
SchedulerParameters=batch_sched_delay=1,sched_interval=2
{nodes}
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=n1,n2 MaxTime=1 State=UP
"""


def why_not() -> str:
    """What this machine lacks for it; empty where it can be brought up."""
    if os.geteuid() != 0:
        return "needs root: slurmd starts processes for users"
    missing = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    if missing:
        return f"needs {', '.join(missing)} (Debian: slurm-wlm munge)"
    done = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    return "" if done.returncode == 0 else "needs mount namespaces, which are not allowed here"


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


@dataclass
class SlurmBed:
    """Its folder, and its daemons by name."""

    folder: Path
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        """What a process needs to talk to it."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": _path()}

    def cluster(self, jobs: str, **more: Any) -> Cluster:
        """A rank on each of its two nodes, and job folders there."""
        return Cluster(launcher="slurm", nodes=len(NODES), folder=jobs, **more)

    def ask(self, *words: str) -> str:
        """What one of its programs says."""
        done = subprocess.run(
            words,
            env={**os.environ, **self.variables},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return (done.stdout or done.stderr).strip()

    def start(self, name: str, *words: str) -> None:
        """A daemon in the foreground, as a child of this process."""
        with open(self.folder / f"{name}.out", "ab") as output:
            self.daemons[name] = subprocess.Popen(
                words, env={**os.environ, **self.variables}, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip

    def start_node(self, node: str) -> None:
        """A slurmd that sees its own name, and the other's, as this machine."""
        hosts = self.folder / "hosts"
        command = f"mount --bind {hosts} /etc/hosts && exec slurmd -D -N {node} -f {self.folder}/slurm.conf"
        cpus = sorted(os.sched_getaffinity(0))
        cpu = cpus[NODES.index(node) % len(cpus)]  # as if the node had its own
        self.start(node, "taskset", "-c", str(cpu), "unshare", "-m", "bash", "-c", command)

    def lose_node(self, node: str) -> None:
        """As if its power were cut: slurmd and all that it started die."""
        daemon = self.daemons[node]
        ranks = [
            each
            for each in psutil.process_iter(["environ"])
            if (each.info["environ"] or {}).get("SLURMD_NODENAME") == node
        ]
        steps = [
            above
            for each in ranks
            for above in each.parents()
            if "slurmstepd" in " ".join(above.cmdline()[:1])
        ]
        for each in [psutil.Process(daemon.pid), *steps, *ranks]:
            with suppress(psutil.Error):
                each.kill()
        daemon.wait(10)

    def wait_until_idle(self, patience_s: float = 120.0) -> None:
        """Both nodes are up and have nothing to do."""
        until = time.monotonic() + patience_s
        while self.ask("sinfo", "--noheader", "--format", "%T %D", "--partition", "main") != "idle 2":
            if time.monotonic() > until:
                raise TimeoutError(self.ask("sinfo", "-N", "-l") + "\n" + self._logs())
            time.sleep(0.1)

    def _logs(self) -> str:
        return "\n".join(
            f"{file.name}:\n{file.read_text()[-2000:]}" for file in sorted(self.folder.glob("*.log"))
        )

    def close(self) -> None:
        """Cancel what runs, and end the daemons by their pids: their steps linger where the controller goes first."""
        if "slurmctld" in self.daemons:
            self.ask("scancel", "--user", "root")
            until = time.monotonic() + 15
            while self.ask("squeue", "--noheader") and time.monotonic() < until:
                time.sleep(0.1)
        for name in (*NODES, "slurmctld", "munged"):
            if (daemon := self.daemons.get(name)) is not None and daemon.poll() is None:
                daemon.send_signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    daemon.wait(10)
                if daemon.poll() is None:
                    daemon.kill()
                    daemon.wait(10)
        for each in self.processes():
            with suppress(psutil.Error):
                each.kill()

    def processes(self) -> list[psutil.Process]:
        """Whatever of it still runs."""
        return [each for each in psutil.process_iter(["cmdline", "environ"]) if self._is_of_it(each)]

    def _is_of_it(self, process: psutil.Process) -> bool:
        is_told = (process.info["environ"] or {}).get("SLURM_CONF") == self.variables["SLURM_CONF"]
        is_named = any(str(self.folder) in word for word in process.info["cmdline"] or [])
        return (is_told or is_named) and process.pid != os.getpid()


@contextmanager
def slurm(folder: Path, *, node_timeout_s: int = 10) -> Iterator[SlurmBed]:
    """Bring it up in a folder, whose path has to be short enough for sockets, and take it down.

    >>> with slurm(Path("/tmp/bed")) as bed:
    ...     bed.ask("sinfo")
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    (folder / "state").mkdir()
    host = socket.gethostname()
    ports = _free_ports(3)
    nodes = "\n".join(
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=4000"
        for node, port in zip(NODES, ports[1:], strict=True)
    )
    (folder / "slurm.conf").write_text(
        CONF.format(host=host, port=ports[0], folder=folder, nodes=nodes, node_timeout_s=node_timeout_s)
    )
    (folder / "hosts").write_text(Path("/etc/hosts").read_text() + f"\n127.0.0.1 {' '.join(NODES)} {host}\n")
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    bed = SlurmBed(folder)
    try:
        bed.start(
            "munged", "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.sock",
            f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed",
        )  # fmt: skip
        until = time.monotonic() + 10
        while not (folder / "munge.sock").exists() and time.monotonic() < until:
            time.sleep(0.05)
        bed.start("slurmctld", "slurmctld", "-D", "-f", str(folder / "slurm.conf"), "-c")
        for node in NODES:
            bed.start_node(node)
        bed.wait_until_idle()
        yield bed
    finally:
        bed.close()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
