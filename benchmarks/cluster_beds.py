"""The clusters that benchmarks of launchers run on: this machine, two hosts in network namespaces, and a SLURM of two nodes."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.clusters import network_hosts, slurm_bed

from accel.distributed.jobs.cluster import Cluster


@dataclass(frozen=True)
class Beds:
    """What could be brought up, each with two ranks."""

    folder: Path
    hosts: network_hosts.NetworkHosts | None
    slurm: slurm_bed.SlurmBed | None

    def clusters(self, of: str = "jobs") -> dict[str, Cluster]:
        """By the launcher's name; `of` is a folder for their jobs."""
        jobs = str(self.folder / of)
        found = {"torchrun": Cluster(ranks_per_node=2, folder=jobs)}
        if self.hosts is not None and shutil.which("mpirun"):
            found["mpirun"] = self.hosts.cluster(jobs)
        if self.slurm is not None:
            found["slurm"] = self.slurm.cluster(jobs)
        return found


@contextmanager
def cluster_beds() -> Iterator[Beds]:
    """Bring them up, and take them down; what cannot be is named on stderr and left out."""
    folder = Path(tempfile.mkdtemp(prefix="ab-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        hosts = slurm = None
        if why := network_hosts.why_not():
            print(f"Without hosts in network namespaces: {why}", file=sys.stderr)
        else:
            hosts = stack.enter_context(network_hosts.network_hosts(folder))
        if why := slurm_bed.why_not():
            print(f"Without SLURM: {why}", file=sys.stderr)
        else:
            slurm = stack.enter_context(slurm_bed.slurm(folder / "s"))
            os.environ.update(slurm.variables)
        yield Beds(folder, hosts, slurm)
