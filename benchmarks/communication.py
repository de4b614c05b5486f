"""What the knobs of the exchange of gradients do: bucket sizes, fp16, bf16, PowerSGD, on two ranks over gloo.

Each variant trains the same model from the same beginning on the same batches, all in turns, in another order each round.
`cnn.bf16.times_faster` is the median over rounds of (default's median step / the variant's); `_low` and `_high` are the lowest
and highest round. Steps before PowerSGD has begun are not timed. `.loss` is the mean of the last ten losses, after as many steps
for all. `.exposed_share` and `.overlap` come from a run of the default with `--communication`.

`all_reduce.16_mb_bytes_per_s` is the bus bandwidth of a bare all-reduce of two ranks, the median of its repetitions.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from statistics import mean, median
from typing import Any

from accel.distributed.cells.run_cell import CellRun
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.ranks.rank_pool import RankPool
from benchmarks.machine_line import report

RANKS = 2
NOT_TIMED = 16  # two passes before DDP, ten of PowerSGD exchanged whole, and some to settle
MAKE = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from accel.labs.models import CNN
torch.manual_seed(0)
criterion, losses, ends = nn.CrossEntropyLoss(), [], []
"""
MODELS = {
    "cnn": """
from accel.labs.datasets import load_dataset
digits = load_dataset("digits", shape=(1, 28, 28))
model = CNN()
dataset = TensorDataset(digits.images.float() / 255, digits.labels)
""",
    "mlp": """
model = nn.Sequential(
    nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
    nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10),
)
centres = 0.4 * torch.randn(10, 64)
labels = torch.randint(10, (4096,))
dataset = TensorDataset(centres[labels] + torch.randn(4096, 64), labels)
""",
}
CELL = """
torch.manual_seed(1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
loader = DataLoader(dataset, batch_size=32, shuffle=True, drop_last=True)
while len(losses) < steps:
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        ends.append(time.perf_counter())
        if len(losses) == steps:
            break
"""
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "bucket_1_mb": {"bucket_mb": 1.0},
    "bucket_4_mb": {"bucket_mb": 4.0},
    "one_bucket": {"bucket_mb": 1000.0},
    "static_graph": {"static_graph": True},
    "fp16": {"compress": "fp16"},
    "bf16": {"compress": "bf16"},
    "powersgd_1": {"compress": "powersgd:1"},
    "powersgd_4": {"compress": "powersgd:4"},
}
IN_A_LOOK = ("default", "bucket_1_mb", "bf16", "powersgd_1")


def train(pool: RankPool, model: str, steps: int, **options: Any) -> tuple[float, float, Any]:
    """Milliseconds of a step, the loss at the end, and what was watched."""
    namespace: dict[str, Any] = {"__name__": "__main__", "steps": steps}
    exec(MAKE + MODELS[model], namespace)
    result = CellRun(pool, CELL, namespace, RunOptions(**options), filename="<cell>").go()
    ends = namespace["ends"]
    times = [1e3 * (b - a) for a, b in zip(ends[NOT_TIMED:], ends[NOT_TIMED + 1 :], strict=False)]
    return median(times), mean(namespace["losses"][-10:]), result.communication


def compared(
    pool: RankPool, model: str, names: Sequence[str], rounds: int, steps: int, draw: random.Random
) -> dict[str, float]:
    """Variants of one model in turns."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in draw.sample(names, len(names)):
            taken[name].append(train(pool, model, steps, **VARIANTS[name])[:2])
    figures = {}
    for name, rows in taken.items():
        ratios = [base / ms for (base, _), (ms, _) in zip(taken["default"], rows, strict=True)]
        if name == "default":
            figures[f"{model}.default.step_ms"] = round(median(ms for ms, _ in rows), 3)
        else:
            figures |= {
                f"{model}.{name}.times_faster": round(median(ratios), 3),
                f"{model}.{name}.times_faster_low": round(min(ratios), 3),
                f"{model}.{name}.times_faster_high": round(max(ratios), 3),
            }
        figures[f"{model}.{name}.loss"] = round(median(loss for _, loss in rows), 5)
    watched = train(pool, model, steps, communication=True)[2]
    if not watched.why_none:
        figures[f"{model}.exposed_share"] = round(watched.exposed_share, 4)
        figures[f"{model}.overlap"] = round(watched.overlap, 4)
    return figures


def bare(size_mb: int, times: int) -> list[float]:
    """In each rank: seconds of all-reduces of so many megabytes."""
    import time

    import torch
    import torch.distributed as dist

    tensor, found = torch.zeros((size_mb << 20) // 4), []
    for _ in range(times + 1):
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(tensor)
        found.append(time.perf_counter() - began)
    return found[1:]


def bandwidths(pool: RankPool, times: int) -> dict[str, float]:
    """Of bare all-reduces; a turn takes as long as its slower rank."""
    figures = {}
    for size_mb in (1, 16, 64):
        turns = zip(*pool.run(bare, size_mb, times), strict=True)
        seconds = median(max(each) for each in turns)
        figures[f"all_reduce.{size_mb}_mb_bytes_per_s"] = round(
            2 * (RANKS - 1) / RANKS * (size_mb << 20) / seconds
        )
    return figures


def main() -> None:
    """Run it and report."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--quick", action="store_true", help="one round of few steps of some of them, and nothing is written"
    )
    quick = arguments.parse_args().quick
    draw, pool = random.Random(14), RankPool(RANKS, threads=1)
    rounds, steps = (1, 22) if quick else (5, 60)
    try:
        figures = bandwidths(pool, 3 if quick else 15)
        for model in MODELS:
            figures |= compared(pool, model, IN_A_LOOK if quick else tuple(VARIANTS), rounds, steps, draw)
    finally:
        pool.close()
    report("communication", figures, is_full_run=not quick, ranks=RANKS, rounds=rounds, steps=steps)


if __name__ == "__main__":
    main()
