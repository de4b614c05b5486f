"""Processes × threads on this machine: time of training, speed-up and efficiency, with the accuracy of what was trained.

The course's CNN on the digits that come with accel, trained by `accel.sweep` from the same weights in each configuration, on CPUs
of its own: 1 and 2 processes × 1 and 2 threads, and further on machines with more cores. Rounds are in an order drawn anew. What
needs more CPUs than there are is in `not_measured`, with the reason. `..._accuracy` is on the 197 held-out images.

`best_times_faster_than_one` is the fastest configuration against one process with one thread,
`best_times_faster_than_best_single` against the fastest single process. With `--quick` rates are compared, not times.
"""

from __future__ import annotations

import argparse
from typing import Any

from accel.measuring.sweep import Sweep
from accel.workbench import Workbench
from accel.workbench.rank_sweep import sweep_of
from benchmarks.machine_line import report

MAKE = """
import torch
from torch import nn
from torch.utils.data import DataLoader
from accel.labs import CNN, load_dataset
torch.manual_seed(0)
train_loader = DataLoader(load_dataset("digits"), batch_size=64, shuffle=True)
test_loader = DataLoader(load_dataset("digits", train=False), batch_size=197)
model, criterion = CNN(), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
"""
CELL = """
for epoch in range(EPOCHS):
    for images, labels in train_loader:
        optimizer.zero_grad()
        criterion(model(images), labels).backward()
        optimizer.step()
"""


def numbers(cores: int) -> tuple[int, ...]:
    """1, 2, 4 … up to the cores; 2 also where there is one, for the reason why not."""
    return tuple(sorted({1, 2, *(2**power for power in range(1, cores.bit_length()))}))


def figures_of(sweep: Sweep) -> dict[str, float]:
    """Time, speed-up, efficiency and accuracy of each configuration, by its name."""
    figures: dict[str, float] = {}
    for row in sweep.measured:
        name = f"{row.configuration.processes}x{row.configuration.threads}"
        speed_up, efficiency = sweep.speed_up(row), sweep.efficiency(row)
        if speed_up is None or efficiency is None or row.quality is None:
            raise SystemExit(f"{name} has no figures: {sweep}")
        figures |= {
            f"{name}_s": row.seconds,
            f"{name}_speed_up": speed_up.mean,
            f"{name}_efficiency": efficiency,
        }
        figures |= {f"{name}_accuracy": row.quality, f"{name}_waiting_share": row.communication_share}
    fastest, single = sweep.fastest, sweep.best_single
    assert fastest is not None
    assert single is not None
    ratio = sweep.compared(fastest, single)
    assert ratio is not None
    figures["best_times_faster_than_one"] = figures[f"{_name(fastest)}_speed_up"]
    figures["best_times_faster_than_best_single"] = ratio.mean
    return {name: float(f"{value:.4g}") for name, value in figures.items()}


def _name(row: Any) -> str:
    return f"{row.configuration.processes}x{row.configuration.threads}"


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--quick", action="store_true", help="one round of eight steps, and nothing is written"
    )
    quick = arguments.parse_args().quick
    namespace: dict[str, Any] = {"__name__": "__main__", "EPOCHS": 5}
    exec(MAKE, namespace)
    workbench = Workbench(namespace, spare_workers=0)
    try:
        counts = (1, 2) if quick else numbers(workbench.machine.usable_cores)
        sweep = sweep_of(
            workbench,
            CELL,
            processes=counts,
            threads=counts,
            rounds=1 if quick else 3,
            steps=8 if quick else None,
        )
    finally:
        workbench.close()
    print(sweep)
    report(
        "sweep", figures_of(sweep), is_full_run=not quick and not sweep.why_ended, rounds=sweep.rounds, answer=sweep.answer,
        knees=[knee.sentence(sweep.shown_cost) for knee in sweep.knees],
        not_measured={row.configuration.label: row.reason for row in sweep.rows if not row.runs},
        seconds={row.configuration.label: [round(run.seconds, 3) for run in row.runs] for row in sweep.measured},
        intervals={_name(row): [round(s.low, 3), round(s.high, 3)] for row in sweep.measured if (s := sweep.speed_up(row))},
    )  # fmt: skip


if __name__ == "__main__":
    main()
