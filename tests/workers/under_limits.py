"""In a process of its own: commands where the system has no more files or room, and again where it has; prints what came of it.

python -m tests.workers.under_limits descriptors|sizes|disk FOLDER
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import torch

from accel.distributed.cells.run_cell import CellRun
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.ranks.rank_pool import RankPool
from accel.errors import AccelError
from accel.processes.kernel_folder import own_kernel_folder
from accel.workbench import Workbench, trial_start
from accel.workers.samples import Effort
from accel.workers.staged_trial import TrialSetting

SETUP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(64, 40), torch.randint(0, 4, (64,))), batch_size=8)
model = nn.Linear(40, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
"""
CELL = """
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
CLOSING_S = 20.0
QUICK = Effort(warm_up=2, least_rounds=1, most_rounds=2, seconds=1)


class Notebook:
    def __init__(self, folder: Path) -> None:
        self.namespace = {"__name__": "__main__"}
        exec(compile(SETUP, "<setup>", "exec"), self.namespace)
        self.bench, self.folder = Workbench(self.namespace, spare_workers=0), folder
        self.bench.profile(CELL)

    @property
    def weights(self) -> torch.Tensor:
        return self.namespace["model"].weight.detach().clone()

    def profile(self) -> list[str]:
        return list(self.bench.profile(CELL).notes)

    def try_(self) -> list[str]:
        return [row.error for row in self.bench.try_("channels_last", "fused_optimizer").rows]

    def ddp(self, **options: object) -> list[str]:
        pool = RankPool(2, threads=1)
        try:
            return list(
                CellRun(pool, CELL, self.namespace, RunOptions(**options), filename="<cell>").go().notes
            )
        finally:
            pool.close()

    def checkpoint(self) -> list[str]:
        return self.ddp(checkpoint=str(self.folder / "checkpoints"), every=2)

    def outcome(
        self, command: str, condition: Callable[[], AbstractContextManager[None]]
    ) -> dict[str, object]:
        """What it gave or said, whether the weights are others, and how many files stayed open."""
        before, files = self.weights, open_files()
        with condition():
            try:
                found = {"notes": getattr(self, command)()}
            except AccelError as error:
                found = {"words": str(error)}
        trained = not torch.equal(before, self.weights)
        patience_s = CLOSING_S if command == "try_" else 0.0
        return {"command": command, "trained": trained, "left_open": left_open(files, patience_s), **found}


def left_open(files: Counter[str], patience_s: float) -> list[str]:
    """Files that are open and not in `files`; waits up to `patience_s` for a trial's thread that writes the history."""
    until = time.monotonic() + patience_s
    gc.collect()
    while (left := open_files() - files) and time.monotonic() < until:
        time.sleep(0.05)
        gc.collect()
    return sorted(left)


def open_files() -> Counter[str]:
    """What the process holds open, by name."""
    found: Counter[str] = Counter()
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one by which the folder was listed
            found[os.readlink(f"/proc/self/fd/{number}")] += 1
    return found


@contextmanager
def limited(which: int, to: int):
    soft, hard = resource.getrlimit(which)
    resource.setrlimit(which, (to, hard))
    try:
        yield
    finally:
        resource.setrlimit(which, (soft, hard))


@contextmanager
def full(folder: Path):
    """Not a byte is free where temporary files are, nor where checkpoints go."""
    with open(folder / "large", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 12))
        except OSError:
            pass
    try:
        yield
    finally:
        (folder / "large").unlink()


def conditions(kind: str, folder: Path):
    if kind == "descriptors":
        return [
            lambda spare=spare: limited(resource.RLIMIT_NOFILE, open_files().total() + spare)
            for spare in (0, 1, 3, 6, 9)
        ]
    if kind == "sizes":
        return [lambda: limited(resource.RLIMIT_FSIZE, 2000)]
    return [lambda: full(folder)]


def main(kind: str, folder: Path) -> None:
    trial_start.TrialSetting = lambda **settings: TrialSetting(
        **settings | {"can_be_steady": False}, effort=QUICK, notebook_relaunches=1
    )
    notebook = Notebook(folder)
    commands = ("profile", "try_", "ddp", "checkpoint")
    notebook.bench.machine  # read once, for all profiles
    own_kernel_folder()  # stays open until the kernel ends
    short = [notebook.outcome(command, each) for each in conditions(kind, folder) for command in commands]
    again = [notebook.outcome(command, nullcontext) for command in commands]
    notebook.bench.close()
    left = [
        name
        for name in os.listdir(tempfile.gettempdir())
        if name.startswith("accel-") and "kernel" not in name
    ]
    print(json.dumps({"short": short, "again": again, "left": left}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
