"""Time from a call to the first optimizer step on two ranks: this pool, warm and cold, and other launchers.

All rows train the same small CNN on the same samples over gloo, with one thread a rank, and take turns in one run. A row's time
runs from the call in this process (shipping what the cell reads, or starting the launcher) until rank 0's first
`optimizer.step()` is done, by the wall clock that both processes read.

`warm_s`: ranks that are up. `cold_s`: a pool of new processes. `first_use_s`: the first cold pool of this process. `torchrun_s`:
`python -m torch.distributed.run` on a script. `notebook_launcher_s` (accelerate, in a fresh process each time, from its call) and
`ipyparallel_s` (engines that are up already; `ipyparallel_first_s` is their first run) are there where they are installed;
`not_measured` says why not. `times_faster_than_torchrun` is of medians, warm; `..._cold` is that of a cold pool.

`check_adds_s` and `check_adds_cold_s`: the time that the check of the first step adds to a run with `--batch global`, on warm
ranks and on new ranks.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from accel.distributed.cells.run_cell import CellRun
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.first_step.verdict import Check
from accel.distributed.ranks.rank_pool import RankPool
from benchmarks.machine_line import report

RANKS = 2
MAKE = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
images, labels = torch.randn(256, 1, 28, 28), torch.randint(10, (256,))
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 26 * 26, 10))
criterion, first_step_at = nn.CrossEntropyLoss(), None
dataset = TensorDataset(images, labels)
"""
CELL = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for batch, target in DataLoader(dataset, batch_size=32, shuffle=True):
    optimizer.zero_grad()
    criterion(model(batch), target).backward()
    optimizer.step()
    first_step_at = first_step_at or time.time()
"""
BY_HAND = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler
torch.set_num_threads(1)
dist.is_initialized() or dist.init_process_group("gloo")
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for batch, target in DataLoader(dataset, batch_size=32, sampler=DistributedSampler(dataset)):
    optimizer.zero_grad()
    criterion(model(batch), target).backward()
    optimizer.step()
    first_step_at = first_step_at or time.time()
dist.get_rank() or print("first step at", first_step_at, flush=True)
dist.destroy_process_group()
"""
IN_A_FUNCTION = (
    "def train():\n"
    + "".join(f"    {line}\n" for line in (MAKE + BY_HAND).splitlines())
    + "    return first_step_at\n"
)
NOTEBOOK_LAUNCHER = f"""
import time
import torch
from accelerate import notebook_launcher
{IN_A_FUNCTION}
print("called at", time.time(), flush=True)
notebook_launcher(train, (), num_processes={RANKS})
"""


def notebook() -> dict[str, Any]:
    """A notebook's namespace: what the cell reads."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(MAKE, namespace)
    return namespace


def on_pool(pool: RankPool) -> float:
    """Seconds from the call to the first step in a cell on this pool."""
    namespace = notebook()
    began = time.time()
    CellRun(pool, CELL, namespace, filename="<cell>").go()
    return float(namespace["first_step_at"] - began)


def whole_run(pool: RankPool, check: Check) -> float:
    """Seconds of a run that shares each batch, with or without the check of its first step."""
    namespace = notebook()
    began = time.time()
    CellRun(pool, CELL, namespace, RunOptions(batch="global", check=check), filename="<cell>").go()
    return time.time() - began


def whole_cold_run(check: Check) -> float:
    """The same with processes that are started for it."""
    pool = RankPool(RANKS, threads=1)
    try:
        return whole_run(pool, check)
    finally:
        pool.close()


def on_cold_pool() -> float:
    """The same with processes that are started for it."""
    pool = RankPool(RANKS, threads=1)
    try:
        return on_pool(pool)
    finally:
        pool.close()


def stamp(text: str, words: str) -> float:
    """The time that a script printed after these words."""
    return float(text.split(words, 1)[1].split()[0])


def in_torchrun(script: Path) -> float:
    """Seconds from starting torchrun to the first step."""
    began = time.time()
    words = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}", str(script)]
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    if (
        done.returncode and "first step at" not in done.stdout
    ):  # a rank that ends badly later took its first step
        raise SystemExit(f"torchrun failed:\n{done.stdout}{done.stderr}")
    return stamp(done.stdout, "first step at") - began


def in_notebook_launcher() -> float:
    """Seconds from the call of `notebook_launcher` to the first step, in a process that did nothing before (it forks)."""
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "ACCELERATE_USE_CPU": "true"}
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK_LAUNCHER], capture_output=True, text=True, env=environment
    )
    if done.returncode:
        raise SystemExit(f"notebook_launcher failed:\n{done.stdout}{done.stderr}")
    return stamp(done.stdout, "first step at") - stamp(done.stdout, "called at")


class Engines:
    """ipyparallel's engines, kept up."""

    def __init__(self) -> None:
        import ipyparallel

        self.cluster = ipyparallel.Cluster(n=RANKS, log_level=40)
        self.client = self.cluster.start_and_connect_sync(activate=False)

    def first_step(self) -> float:
        """Seconds from the call to the first step; the ranks meet by a file."""
        folder = tempfile.mkdtemp(prefix="launch-")
        began = time.time()
        view = self.client[:]
        view.scatter("accel_rank", range(RANKS), flatten=True, block=True)
        meet = (
            f"import torch.distributed as dist; dist.init_process_group('gloo', init_method='file://{folder}/meet', "
            f"rank=accel_rank, world_size={RANKS})"
        )
        view.execute(f"{meet}\n{IN_A_FUNCTION}\nresult = train()", block=True)
        return float(view.pull("result", block=True)[0] - began)

    def close(self) -> None:
        """End them."""
        self.client.close()
        self.cluster.stop_cluster_sync()


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="one round, and nothing is written")
    quick = arguments.parse_args().quick
    peers = {"notebook_launcher": "accelerate", "ipyparallel": "ipyparallel"}
    missing = {row: package for row, package in peers.items() if not importlib.util.find_spec(package)}
    not_measured = {row: f"{package} is not installed" for row, package in missing.items()}
    warm, engines = RankPool(RANKS, threads=1), None
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="launch-") as folder:
        script = Path(folder) / "train.py"
        script.write_text(MAKE + BY_HAND)
        rows: dict[str, Callable[[], float]] = {
            "warm": lambda: on_pool(warm), "cold": on_cold_pool, "torchrun": lambda: in_torchrun(script),
            "checked": lambda: whole_run(warm, "on"), "unchecked": lambda: whole_run(warm, "off"),
            "checked_cold": lambda: whole_cold_run("on"), "unchecked_cold": lambda: whole_cold_run("off"),
        }  # fmt: skip
        try:
            figures["first_use_s"] = on_pool(warm)
            whole_run(warm, "on")
            if "notebook_launcher" not in missing:
                rows["notebook_launcher"] = in_notebook_launcher
            if "ipyparallel" not in missing:
                engines = Engines()
                figures["ipyparallel_first_s"] = engines.first_step()
                rows["ipyparallel"] = engines.first_step
            taken = rounds_of(rows, rounds=1 if quick else 7)
        finally:
            warm.close()
            if engines is not None:
                engines.close()
    figures |= {f"{row}_s": median(times) for row, times in taken.items()}
    figures["times_faster_than_torchrun"] = figures["torchrun_s"] / figures["warm_s"]
    figures["times_faster_than_torchrun_cold"] = figures["torchrun_s"] / figures["cold_s"]
    figures["check_adds_s"] = figures.pop("checked_s") - figures.pop("unchecked_s")
    figures["check_adds_cold_s"] = figures.pop("checked_cold_s") - figures.pop("unchecked_cold_s")
    rounded = {name: float(f"{value:.4g}") for name, value in figures.items()}
    report(
        "launch", rounded, is_full_run=not quick, ranks=RANKS, not_measured=not_measured,
        rounds={row: [round(each, 4) for each in times] for row, times in taken.items()},
    )  # fmt: skip


def rounds_of(rows: dict[str, Callable[[], float]], *, rounds: int) -> dict[str, list[float]]:
    """All rows by turns, in random order in each round."""
    taken: dict[str, list[float]] = {row: [] for row in rows}
    order = random.Random(0)
    for _ in range(rounds):
        for row in order.sample(sorted(rows), len(rows)):
            taken[row].append(rows[row]())
    return taken


if __name__ == "__main__":
    main()
