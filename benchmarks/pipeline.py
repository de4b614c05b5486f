"""The course's seven-step data pipeline: workers × pinned memory, transforms in batches, samples kept.

Resize 255, CenterCrop 224, RandomHorizontalFlip 0.5, RandomRotation 20, GaussianBlur 3, ToTensor and Normalize, on digits of
3×32×32 as PIL images, in front of a small convolutional network: a training that waits for its data.

Two figures a row. `step`: what `%accel try` measures, steps in turns with those of the loader without worker processes, as ratio
(above 1: faster) with its 95 % interval. `epoch_s`: seconds of a whole epoch in one process, all rows in turns, median with the
lowest and highest; it holds what no median step shows: starting the worker processes, and filling a cache for the first time
(`first_epoch_s`, once).

Rows that this machine cannot run have the reason instead of figures. Pinned memory needs a GPU. All runs on one thread.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import chain
from statistics import median
from typing import Any

import torch

from accel.errors import AccelError, in_words
from accel.machine import read_machine
from accel.plans.plan import Plan
from accel.workbench import Workbench
from accel.workload import Replica
from benchmarks.machine_line import report

SETUP = """
import torch
from PIL import Image
from torch import nn
from torchvision import transforms
from accel.labs.datasets import load_dataset

class Digits(torch.utils.data.Dataset):
    def __init__(self, count, transform):
        digits = load_dataset("digits", shape=(3, 32, 32))
        self.pixels = digits.images[:count].permute(0, 2, 3, 1).contiguous().numpy()
        self.labels, self.transform = digits.labels[:count].tolist(), transform
    def __len__(self):
        return len(self.pixels)
    def __getitem__(self, index):
        return self.transform(Image.fromarray(self.pixels[index])), self.labels[index]

course = transforms.Compose([
    transforms.Resize(255),
    transforms.CenterCrop(224),
    transforms.RandomHorizontalFlip(0.5),
    transforms.RandomRotation(20),
    transforms.GaussianBlur(3),
    transforms.ToTensor(),
    transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
])
torch.manual_seed(0)
loader = torch.utils.data.DataLoader(Digits({images}, course), batch_size={batch_size}, shuffle=True)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(
    nn.Conv2d(3, 16, 7, stride=4), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=4), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
CELL = """
for images, labels in loader:
    images, labels = images.to(device), labels.to(device)
    optimizer.zero_grad()
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
"""
WORKERS = (0, 1, 2, 4)
ALONE = ("batched_transforms", "cache_dataset", "cache_dataset+batched_transforms")


@dataclass(frozen=True)
class Row:
    """One way to load the data; figures, or in words why there are none."""

    plan: str
    workers: int
    is_pinned: bool
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str = ""
    first_epoch_s: float | None = None
    epoch_s: float | None = None
    epoch_low_s: float | None = None
    epoch_high_s: float | None = None
    why_not: str = ""

    def __str__(self) -> str:
        pinned = "pinned" if self.is_pinned else "pageable"
        step = (
            "–"
            if self.ratio is None
            else f"{self.ratio:.2f}× [{self.low:.2f}, {self.high:.2f}] {self.verdict}"
        )
        epoch = (
            "–"
            if self.epoch_s is None
            else f"epoch {self.epoch_s:.2f} s, the first {self.first_epoch_s:.2f} s"
        )
        result = self.why_not or f"step {step:<32} {epoch}"
        return f"{self.plan or 'baseline':<46} {self.workers} workers, {pinned:<9} {result}"


def wanted(workers_wanted: Sequence[int], alone: Sequence[str]) -> list[Row]:
    """Workers × pinned memory as the course's table has them, then other plans, without worker processes and with two."""
    rows = []
    for is_pinned in (False, True):
        for workers in workers_wanted:
            parts = [f"loader_workers(n={workers})"] if workers else []
            rows.append(Row("+".join(parts + ["pin_memory"] * is_pinned), workers, is_pinned))
    rows += [Row(plan, 0, False) for plan in alone]
    return [*rows, Row(f"loader_workers(n=2)+{alone[-1]}", 2, False)]


def why_not(row: Row, workbench: Workbench) -> str:
    """In words why a row cannot be run on this machine; empty when it can."""
    if row.is_pinned and not torch.cuda.is_available():
        return "needs a GPU: not run"
    assert workbench.workload is not None
    reasons = Plan.parse(row.plan).why_not(workbench.workload, workbench.machine)
    return in_words(chain(*reasons.values()))


def steps_in_turns(
    workbench: Workbench, rows: list[Row], budget_s: float | None
) -> dict[str, dict[str, Any]]:
    """What `%accel try` says of each plan against the loader as it is."""
    plans = [row.plan for row in rows if row.plan]
    found: dict[str, dict[str, Any]] = {}
    try:
        ladder = workbench.try_(*plans, budget_s=budget_s, timeout_s=240)
    except AccelError as error:
        sys.stderr.write(f"no trial: {error}\n")
        return found
    for plan in plans:
        row = ladder[str(Plan.parse(plan))]  # type: ignore[index, union-attr]
        shown = row.headline or row.steady
        found[plan] = {"verdict": row.verdict or row.sentence}
        if shown is not None:
            found[plan] |= {"ratio": shown.ratio, "low": shown.low, "high": shown.high}
    return found


def epochs_in_turns(
    namespace: dict[str, Any], workbench: Workbench, rows: list[Row], rounds: int
) -> dict[str, list[float]]:
    """Seconds of each plan's first epoch and of `rounds` later ones, the plans in turns from epoch to epoch.

    A cache stays filled between its epochs, as it does in a training: its plan is applied once, and each loader is a copy.
    """
    seconds: dict[str, list[float]] = {row.plan: [] for row in rows}
    code = compile(CELL, "<cell>", "exec")
    with ExitStack() as stack:
        sides = {}
        for row in rows:
            loader = copy.copy(namespace["loader"])
            replica = Replica(models={"model": namespace["model"]}, loaders={"loader": loader})
            stack.enter_context(Plan.parse(row.plan).apply(replica))
            sides[row.plan] = {**namespace, "loader": loader}
        for number in range(rounds + 1):
            for plan in list(seconds)[:: 1 if number % 2 else -1]:
                begin = time.perf_counter()
                exec(code, sides[plan])
                seconds[plan].append(time.perf_counter() - begin)
    return seconds


def measure(
    table: list[Row], *, images: int, batch_size: int, rounds: int, budget_s: float | None = None
) -> list[Row]:
    """All rows, each with its figures or the reason why there are none; without a budget no trial is cut short."""
    torch.set_num_threads(1)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(SETUP.replace("{images}", str(images)).replace("{batch_size}", str(batch_size)), namespace)
    workbench = Workbench(namespace)
    try:
        workbench.profile(CELL)
        refused = {row.plan: why_not(row, workbench) for row in table}
        rows = [row for row in table if not refused[row.plan]]
        steps = steps_in_turns(workbench, rows, budget_s)
        epochs = epochs_in_turns(namespace, workbench, rows, rounds)
    finally:
        workbench.close()
    result = []
    for row in table:
        figures: dict[str, Any] = {"why_not": refused[row.plan], **steps.get(row.plan, {})}
        if row.plan in epochs:
            first, *later = epochs[row.plan]
            figures |= {"first_epoch_s": first, "epoch_s": median(later),
                        "epoch_low_s": min(later), "epoch_high_s": max(later)}  # fmt: skip
        result.append(Row(**(asdict(row) | figures)))
    return result


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--quick", action="store_true", help="few rows, few images and a short trial; nothing is written"
    )
    given = arguments.parse_args()
    if given.quick:
        rows = measure(wanted((0, 2), ALONE[2:]), images=64, batch_size=8, rounds=1, budget_s=30.0)
    else:
        rows = measure(wanted(WORKERS, ALONE), images=1600, batch_size=32, rounds=7)
    for row in rows:
        sys.stderr.write(f"{row}\n")
    run = [row for row in rows if row.epoch_s is not None]
    baseline = next(row for row in rows if not row.plan)
    figures = {"rows": float(len(rows)), "rows_run": float(len(run))}
    for row in run:
        if row.plan and row.ratio is not None:
            figures[f"step ratio of {row.plan}"] = round(row.ratio, 3)
        if row.plan and row.epoch_s and baseline.epoch_s:
            figures[f"epoch ratio of {row.plan}"] = round(baseline.epoch_s / row.epoch_s, 3)
    load = read_machine().load_average
    report("pipeline", figures, is_full_run=not given.quick, notes=[f"load average at the end: {load}"],
           rows=[asdict(row) for row in rows])  # fmt: skip


if __name__ == "__main__":
    main()
