"""What a kernel that is killed in the middle of `%accel tune` leaves behind: rows, a sound file, and no process.

    python -m benchmarks.kills [--quick] [--times 50]

A process that stands for the kernel tunes a small cell and writes down each plan as its figures are known. At a random moment it
is killed by SIGKILL, or one of its workers is; in turns. Then the history has to hold every plan that was known, as the search or
the confirmation measured it, SQLite has to
find its file intact, and no process of that kernel may be left.

Figures: `lost_rows`, `damaged_files`, `processes_left` (all to be 0), `rows_kept`, `kernels_killed`, `workers_killed`,
`searches_ended` (those that went on after a worker was killed, and ended with a result).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.machine_line import report

GONE_S = 15.0  # a child has to notice by then that its kernel is gone
KERNEL = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from accel.history.records import AS_THE_NOTEBOOK_RUNS, STEADY
from accel.workbench import Workbench

torch.manual_seed(0)
torch.set_num_threads(1)
data = TensorDataset(torch.randn(320, 1, 12, 12), torch.randint(0, 4, (320,)))
names = dict(
    __name__="__main__", loader=DataLoader(data, batch_size=16, shuffle=True), criterion=nn.CrossEntropyLoss(),
    model=nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1600, 4)),
)
names["optimizer"] = torch.optim.Adam(names["model"].parameters())
workbench = Workbench(names, spare_workers=0)
workbench.profile('''
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
''')
print("tuning", flush=True)
trial = workbench.tune(budget_s=float(sys.argv[1]), exclude=["ddp"], wait=False)
known = set()

def note():
    for row in (*trial.result.searched, *(row for row in trial.result.confirmed if row.shown)):
        said = f"{AS_THE_NOTEBOOK_RUNS if row.headline else STEADY}: {row.plan}"
        if said not in known:
            known.add(said)
            print("row", said, flush=True)

trial.on_change(note)
trial.wait()
note()
print("ended", flush=True)
workbench.close()
"""


@dataclass
class Counts:
    """What became of all rounds so far."""

    figures: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("lost_rows", "damaged_files", "processes_left", "rows_kept", "kernels_killed", "workers_killed", "searches_ended"), 0
        )
    )  # fmt: skip

    def add(self, **more: int) -> None:
        for name, count in more.items():
            self.figures[name] += count


def one(counts: Counts, folder: Path, *, kills_kernel: bool, budget_s: float, moment: random.Random) -> None:
    """One search that is struck, and what it left."""
    history = folder / "history.sqlite"
    said = folder / "said.txt"
    environment = {**os.environ, "ACCEL_HISTORY": str(history)}
    with said.open("w") as out:
        kernel = subprocess.Popen(
            [sys.executable, "-c", KERNEL, str(budget_s)],
            stdout=out,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        while "tuning" not in said.read_text() and kernel.poll() is None:
            time.sleep(0.05)
        time.sleep(moment.uniform(0.3, budget_s))
        family = _family(kernel.pid)
        if kills_kernel:
            counts.add(kernels_killed=int(kernel.poll() is None))  # it may have ended just now
            kernel.kill()
        elif workers := [each for each in family if "worker_main" in _command(each)]:
            counts.add(workers_killed=1)
            with suppress(psutil.NoSuchProcess):
                moment.choice(workers).kill()
        kernel.wait(timeout=4 * budget_s + 60)
    lines = said.read_text().splitlines()
    known = {line.removeprefix("row ") for line in lines if line.startswith("row ")}
    with closing(sqlite3.connect(history)) as connection:
        is_sound = connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        rows = connection.execute("SELECT where_measured, plan FROM trials")
        kept = {f"{where}: {plan}" for where, plan in rows}
    counts.add(
        lost_rows=len(known - kept), rows_kept=len(kept), damaged_files=int(not is_sound),
        processes_left=len(_left(family)), searches_ended=int("ended" in lines),
    )  # fmt: skip


def _family(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def _command(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _left(family: list[psutil.Process]) -> list[psutil.Process]:
    """Those that are still there after a while."""
    until = time.monotonic() + GONE_S
    while time.monotonic() < until and any(_lives(each) for each in family):
        time.sleep(0.1)
    return [each for each in family if _lives(each)]


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="twice, under a minute; nothing is written")
    parser.add_argument("--times", type=int, default=50, help="default: 50")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default: 0)")
    given = parser.parse_args()
    counts, moment = Counts(), random.Random(given.seed)
    for number in range(2 if given.quick else given.times):
        with tempfile.TemporaryDirectory() as folder:
            one(counts, Path(folder), kills_kernel=number % 2 == 0, budget_s=12.0, moment=moment)
        sys.stderr.write(f"{number + 1}: {json.dumps(counts.figures)}\n")
    report(
        "kills", {name: float(count) for name, count in counts.figures.items()}, is_full_run=not given.quick
    )


if __name__ == "__main__":
    main()
