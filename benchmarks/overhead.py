"""What watching a cell costs: step time under `%%accel profile` with its default options over the plain loop.

One process, one model. The two loops are the same cell, once as written and once in the session that the notebook's magic
opens (`Workbench.begin_profile`: marks, and the watches of synchronisations, loaders and compilation). Both are run in
turns, in random order. Opening and closing the session is not timed, nor are the first steps of either side: torch.profiler
records seven of them, and loaders time their first eight batches. What is timed are the steps that the report's times
come from; the recorded ones are in `ratio_25ms_whole_cell`.

`25ms` and `0_3ms` name two workloads, a convolutional net and a tiny one, after their steps on a quiet two-core machine. How
long a step really is depends on the machine: `plain_step_ms_25ms` and `plain_step_ms_0_3ms` say it for this run.

`ratio_25ms` and `ratio_0_3ms` are medians over pairs with a 95 % bootstrap interval. `ratio_25ms_whole_cell` is a whole
cell of 100 steps with torch.profiler's window (7 steps) and everything before and after it.

The process runs under a steady allocator. Under glibc's defaults a step of the CNN takes anything from no page fault to 6,000,
from one process to the next and without any watching, which moved the ratio between 0.85 and 1.07: no measure of accel.
"""

from __future__ import annotations

import argparse
import ast
import math
import random
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np

from accel.accelerations.steady_allocator import use_steady_thresholds
from accel.workbench import Workbench
from benchmarks.machine_line import report

FEWEST_PAIRS = 8
SETTLE = 12  # steps: past the seven that torch.profiler records and the eight batches that a loader times
CELL = """
for images, labels in batches:
    optimizer.zero_grad()
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
"""


def cnn_notebook() -> dict[str, Any]:
    """The course's CNN on batches of 64 images of 28×28: some 25 ms a step on a quiet machine with two cores."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from accel.labs.models import CNN

    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64 * 100, 1, 28, 28), torch.randint(0, 10, (64 * 100,)))
    model = CNN()
    return {
        "model": model,
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "criterion": torch.nn.CrossEntropyLoss(),
        "batches": DataLoader(data, batch_size=64),
    }


def mlp_notebook() -> dict[str, Any]:
    """A two-layer network on batches of 16 that lie ready: some 0.3 ms a step on such a machine."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    return {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=1e-2),
        "criterion": torch.nn.CrossEntropyLoss(),
        "batches": [(torch.randn(16, 32), torch.randint(0, 10, (16,))) for _ in range(100)],
    }


def stepwise(tree: ast.Module, namespace: dict[str, Any]) -> Any:
    """The cell's loop as a generator function that stops after each step, to be run in turns with another."""
    (loop,) = tree.body
    assert isinstance(loop, ast.For)
    loop.body.append(ast.Expr(ast.Yield()))
    function = ast.parse("def steps(): pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = [loop]
    scope = dict(namespace)
    exec(compile(ast.fix_missing_locations(ast.Module([function], [])), "<cell>", "exec"), scope)
    return scope["steps"]


def seconds_a_step(loop: Iterator[None], *, settle: int, timed: int) -> float:
    """Mean time of some steps, after some that are not timed."""
    for _ in range(settle):
        next(loop)
    begin = time.perf_counter_ns()
    for _ in range(timed):
        next(loop)
    return (time.perf_counter_ns() - begin) / timed / 1e9


def watched_seconds_a_step(workbench: Workbench, *, timed: int) -> float:
    """Mean time of some steps in the session that `%%accel profile` opens, as it is by default."""
    session = workbench.begin_profile(CELL, CELL)
    steps = stepwise(session.transform(ast.parse(CELL)), workbench.namespace)
    with session:
        loop = steps()
        seconds = seconds_a_step(loop, settle=SETTLE, timed=timed)
        loop.close()
    return seconds


def plain_seconds_a_step(namespace: dict[str, Any], *, timed: int) -> float:
    """Mean time of some steps of the cell as written."""
    loop = stepwise(ast.parse(CELL), namespace)()
    seconds = seconds_a_step(loop, settle=SETTLE, timed=timed)
    loop.close()
    return seconds


def log_ratios(namespace: dict[str, Any], *, budget_s: float, timed: int) -> tuple[list[float], float]:
    """Log of watched over plain step time, pair by pair in random order, and the plain step's median in ms."""
    workbench = Workbench(namespace, spare_workers=0)
    watched_seconds_a_step(workbench, timed=1)  # the first profile of a process loads the profiler itself
    order, ratios, plain_s = random.Random(0), [], []
    until = time.monotonic() + budget_s
    while time.monotonic() < until or len(ratios) < FEWEST_PAIRS:
        seconds = {}
        for is_watched in order.sample([True, False], 2):
            seconds[is_watched] = (
                watched_seconds_a_step(workbench, timed=timed)
                if is_watched
                else plain_seconds_a_step(namespace, timed=timed)
            )
        ratios.append(math.log(seconds[True] / seconds[False]))
        plain_s.append(seconds[False])
    workbench.close()
    return ratios, 1e3 * median(plain_s)


def whole_cell_log_ratios(namespace: dict[str, Any], *, pairs: int) -> list[float]:
    """Log of the time of a whole profiled cell over that of the plain cell."""
    code, order, ratios = compile(CELL, "<cell>", "exec"), random.Random(1), []
    workbench = Workbench(namespace)
    for pair in range(pairs + 1):
        seconds = {}
        for is_profiled in order.sample([True, False], 2):
            begin = time.perf_counter_ns()
            if is_profiled:
                workbench.profile(CELL)
            else:
                exec(code, namespace)
            seconds[is_profiled] = time.perf_counter_ns() - begin
        if pair:  # the first profile of a process loads the profiler itself
            ratios.append(math.log(seconds[True] / seconds[False]))
    workbench.close()
    return ratios


def with_interval(name: str, ratios: list[float]) -> dict[str, float]:
    """Median ratio with its 95 % percentile bootstrap interval."""
    draws = np.random.default_rng(0).choice(ratios, size=(4000, len(ratios)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    figures = {name: median(ratios), f"{name}_low": low, f"{name}_high": high}
    return {key: round(math.exp(value), 4) for key, value in figures.items()}


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="under a minute, and nothing is written")
    quick = arguments.parse_args().quick
    use_steady_thresholds()
    cnn = cnn_notebook()
    long_step, long_ms = log_ratios(cnn, budget_s=15 if quick else 90, timed=10)
    short_step, short_ms = log_ratios(mlp_notebook(), budget_s=8 if quick else 30, timed=80)
    figures = with_interval("ratio_25ms", long_step) | with_interval("ratio_0_3ms", short_step)
    if not quick:
        figures |= with_interval("ratio_25ms_whole_cell", whole_cell_log_ratios(cnn, pairs=10))
    figures |= {"plain_step_ms_25ms": round(long_ms, 3), "plain_step_ms_0_3ms": round(short_ms, 3)}
    pairs = {"ratio_25ms": len(long_step), "ratio_0_3ms": len(short_step)}
    report("overhead", figures, is_full_run=not quick, pairs=pairs)


if __name__ == "__main__":
    main()
