"""Kill a rank at a random step, go on from the checkpoint, and compare bit for bit with a run that was not interrupted.

`equal` of `runs` ended with the same losses, weights and optimizer state as the uninterrupted one. In each a rank is killed by
SIGKILL (in some a second one later) and started again by `max_restarts`. `checkpoint_ms` is what one checkpoint adds: the
difference between the medians of runs with one each 4 steps and of runs with none, in turns, divided by their number.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from accel.distributed.cells.run_cell import CellRun
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.ranks.rank_pool import RankPool
from benchmarks.machine_line import report

EVERY, STEPS = 4, 32
CELL = """
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.7)
for epoch in range(4):
    model.train()
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        at_step(len(losses))
    scheduler.step()
"""


def notebook(at_step: Callable[[int], None]) -> dict[str, Any]:
    """What the cell reads, made alike each time."""
    torch.manual_seed(0)
    images, labels = torch.randn(256, 1, 28, 28), torch.randint(10, (256,))
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(8 * 26 * 26, 10),
    )
    return {
        "__name__": "__main__", "torch": torch, "model": model, "criterion": nn.CrossEntropyLoss(), "losses": [],
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3), "at_step": at_step,
        "loader": DataLoader(TensorDataset(images, labels), batch_size=16, shuffle=True),
    }  # fmt: skip


def nothing(step: int) -> None:
    """No rank is killed."""


def killer(folder: str, kills: list[tuple[int, int]]) -> Callable[[int], None]:
    """Kills rank r at step s, each of these once."""

    def at_step(now: int) -> None:
        import torch.distributed as dist

        for step, rank in kills:
            mark = os.path.join(folder, f"killed {step} {rank}")
            if now == step and dist.get_rank() == rank and not os.path.exists(mark):
                open(mark, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)

    return at_step


def state(namespace: dict[str, Any]) -> list[Any]:
    """Everything that is compared."""
    moments = namespace["optimizer"].state_dict()["state"].values()
    tensors = [*namespace["model"].state_dict().values(), *(t for each in moments for t in each.values())]
    return [namespace["losses"], *(tensor.tolist() for tensor in tensors)]


def seconds(pool: RankPool, folder: str) -> float:
    """One run in which nothing happens; with checkpoints where there is a folder."""
    began = time.perf_counter()
    CellRun(pool, CELL, notebook(nothing), RunOptions(checkpoint=folder, every=EVERY), filename="<cell>").go()
    return time.perf_counter() - began


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="three kills, and nothing is written")
    quick = arguments.parse_args().quick
    draw, pool, runs = random.Random(6), RankPool(2, threads=1), []
    try:
        whole = notebook(nothing)
        CellRun(pool, CELL, whole, filename="<cell>").go()
        for number in range(3 if quick else 20):
            kills = [(draw.randint(1, STEPS), draw.randint(0, 1)) for _ in range(1 + number % 4 // 3)]
            with tempfile.TemporaryDirectory(prefix="resume-") as folder:
                again = notebook(killer(folder, kills))
                run = CellRun(
                    pool,
                    CELL,
                    again,
                    RunOptions(checkpoint=folder, every=EVERY, max_restarts=len(kills)),
                    filename="<cell>",
                )
                notes = run.go().notes
                died = len(list(Path(folder).glob("killed *")))
            runs.append({"kills": kills, "died": died, "equal": state(again) == state(whole), "notes": notes})
        with tempfile.TemporaryDirectory(prefix="resume-") as folder:
            pairs = [(seconds(pool, folder), seconds(pool, "")) for _ in range(3 if quick else 9)]
    finally:
        pool.close()
    extra = median(a for a, _ in pairs) - median(b for _, b in pairs)
    figures = {
        "runs": len(runs),
        "kills": sum(run["died"] for run in runs),
        "equal": sum(run["equal"] for run in runs),
        "checkpoint_ms": round(1e3 * extra / (STEPS // EVERY), 3),
    }
    details = [{key: run[key] for key in ("kills", "died", "equal")} for run in runs]
    report("resume", figures, is_full_run=not quick, each_of_these=details)
    if not all(run["equal"] and run["died"] for run in runs):
        raise SystemExit("a resumed run differs from the uninterrupted one, or no rank was killed")


if __name__ == "__main__":
    main()
