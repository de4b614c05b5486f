"""From the wish to the first step: `%%accel ddp --launcher` beside the same launcher used by hand on a script of plain PyTorch.

Both train the same small network on two ranks, in turns. `…_s` are medians in seconds, `…_ratio` the median over turns of
accel's time by that of the script: above 1, accel takes longer. By hand means: torchrun on this machine; mpirun over two hosts
(network namespaces); sbatch with srun on a SLURM of two nodes.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from statistics import median

from tests.clusters.trainings import SETUP, cell, opened, options

from accel.distributed.jobs.cluster import Cluster
from benchmarks.cluster_beds import Beds, cluster_beds
from benchmarks.machine_line import report

TURNS, TOLD = 5, "first_step.txt"
FIRST_STEP = "first.append(time.time()) if not first else None"
BY_HAND = """
import os, time
for theirs, ours in {"OMPI_COMM_WORLD_RANK": "RANK", "OMPI_COMM_WORLD_SIZE": "WORLD_SIZE",
                     "SLURM_PROCID": "RANK", "SLURM_NTASKS": "WORLD_SIZE"}.items():
    if theirs in os.environ:
        os.environ.setdefault(ours, os.environ[theirs])
""" + SETUP + """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler
torch.set_num_threads(1)
dist.init_process_group("gloo")
data = loader.dataset
loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
model = DistributedDataParallel(model)
first = []
""" + cell(1, FIRST_STEP) + """
if dist.get_rank() == 0:
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "first_step.txt"), "w") as file:
        file.write(repr(first[0]))
import gc
model = model.module
gc.collect()
dist.destroy_process_group()
"""  # fmt: skip


def by_accel(cluster: Cluster) -> float:
    """Seconds from the cell until its first step."""
    with opened() as bench:
        bench.namespace["first"] = []
        began = time.time()
        bench.ranks.run(cell(1, FIRST_STEP), options(cluster))
        return float(bench.namespace["first"][0]) - began


def by_hand(name: str, beds: Beds, folder: Path) -> float:
    """Seconds from the command until the script's first step."""
    folder.mkdir(exist_ok=True)
    script, told = folder / "train.py", folder / TOLD
    script.write_text(BY_HAND)
    told.unlink(missing_ok=True)
    words = command(name, beds, folder, script)
    began = time.time()
    subprocess.run(
        words, check=True, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    return float(told.read_text()) - began


def command(name: str, beds: Beds, folder: Path, script: Path) -> list[str]:
    """What a user types for it."""
    if name == "torchrun":
        return [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "2",
            str(script),
        ]
    port = str(20_000 + os.getpid() % 10_000)
    if name == "mpirun":
        assert beds.hosts is not None
        of_bed = beds.hosts.cluster(str(folder))
        first = of_bed.hosts[0][0]
        hosts = ",".join(f"{host}:{ranks}" for host, ranks in of_bed.hosts)
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return [
            "mpirun", *root, "-n", "2", "--host", hosts, "--mca", "plm_rsh_agent", of_bed.remote_shell, *of_bed.options, "-x",
            f"MASTER_ADDR={first}", "-x", f"MASTER_PORT={port}", "-x", "GLOO_SOCKET_IFNAME=eth0", "-x", "OMP_NUM_THREADS",
            sys.executable, str(script),
        ]  # fmt: skip
    batch = folder / "train.sbatch"
    batch.write_text("\n".join([
        "#!/bin/bash", f"#SBATCH --nodes=2 --ntasks-per-node=1 --output={folder}/out.txt",
        f"export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1) MASTER_PORT={port}",
        f"srun --mpi=none {shlex.quote(sys.executable)} {shlex.quote(str(script))}", "",
    ]))  # fmt: skip
    return ["sbatch", "--wait", str(batch)]


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="torchrun, one turn, and nothing is written")
    quick = arguments.parse_args().quick
    figures: dict[str, float] = {}
    with cluster_beds() as beds:
        clusters = beds.clusters()
        names = ["torchrun"] if quick else list(clusters)
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for turn in range(1 if quick else TURNS):
            for name in names:
                hand = partial(by_hand, name, beds, beds.folder / f"hand-{name}")
                if turn % 2:
                    by_script, by_us = hand(), by_accel(clusters[name])
                else:
                    by_us, by_script = by_accel(clusters[name]), hand()
                taken[name].append((by_us, by_script))
                print(f"{name}: accel {by_us:.2f} s, by hand {by_script:.2f} s", file=sys.stderr, flush=True)
    for name, pairs in taken.items():
        figures[f"{name}_s"] = round(median(accel for accel, _ in pairs), 2)
        figures[f"{name}_by_hand_s"] = round(median(hand for _, hand in pairs), 2)
        figures[f"{name}_ratio"] = round(median(accel / hand for accel, hand in pairs), 3)
    report("launchers", figures, is_full_run=not quick, turns=1 if quick else TURNS)


if __name__ == "__main__":
    main()
