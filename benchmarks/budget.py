"""Wall seconds of `%accel try --budget-s S` against S: three cells, from the command to its answer.

`mlp_10_s` is a small network on batches that lie ready, `cnn_compiled_10_s` the course's CNN with a plan that compiles and may
not be done in ten seconds, `slow_10_s` a cell that takes seconds before its loop and half a second a step. A trial that is
decided earlier ends earlier. `over_allowed_worst_s` is how far the worst lies above what is promised, 10 % and 3 s more than
asked for; below zero, all keep to it. `..._answered` is 1 where a plan has an interval. With `--quick` only ten seconds.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

from accel.measuring.ladder import Ladder
from accel.workbench import Workbench
from benchmarks.machine_line import report
from benchmarks.overhead import cnn_notebook, mlp_notebook

LOOP = """
for x, y in batches:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
SLOW = """
import time
time.sleep(2)
for x, y in batches[:6]:
    time.sleep(0.5)
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
BUDGETS_S = (10, 30, 60)


class Case(NamedTuple):
    """A cell, its notebook, and the plans that are tried on it."""

    namespace: dict[str, Any]
    cell: str
    plans: tuple[str, ...]


def cases() -> dict[str, Case]:
    """Short steps, a plan that compiles, and a cell that is slow to begin with long steps."""
    return {
        "mlp": Case(mlp_notebook(), LOOP, ("fused_optimizer",)),
        "cnn_compiled": Case(cnn_notebook(), LOOP, ("channels_last", "compile_model")),
        "slow": Case(mlp_notebook(), SLOW, ("fused_optimizer",)),
    }


def tried(workbench: Workbench, plans: tuple[str, ...], budget_s: float) -> tuple[float, Ladder]:
    """Seconds from the command to its answer, and the answer."""
    began = time.perf_counter()
    ladder = workbench.try_(*plans, budget_s=budget_s)
    assert isinstance(ladder, Ladder)
    return time.perf_counter() - began, ladder


def measure(budgets_s: tuple[int, ...]) -> tuple[dict[str, float], dict[str, str]]:
    """Figures by case and budget, and in words what ended each trial."""
    figures: dict[str, float] = {}
    ended: dict[str, str] = {}
    over = []
    for name, case in cases().items():
        workbench = Workbench({"__name__": "__main__", **case.namespace})
        try:
            workbench.profile(case.cell)
            for budget_s in budgets_s:
                took_s, ladder = tried(workbench, case.plans, budget_s)
                figures[f"{name}_{budget_s}_s"] = round(took_s, 2)
                figures[f"{name}_{budget_s}_answered"] = float(
                    any(row.headline or row.steady for row in ladder.rows)
                )
                ended[f"{name}_{budget_s}"] = str(ladder.took)
                over.append(took_s - 1.1 * budget_s - 3.0)
        finally:
            workbench.close()
    return {**figures, "over_allowed_worst_s": round(max(over), 2)}, ended


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="budgets of ten seconds; nothing is written")
    quick = arguments.parse_args().quick
    figures, ended = measure(BUDGETS_S[:1] if quick else BUDGETS_S)
    report("budget", figures, is_full_run=not quick, ended=ended)


if __name__ == "__main__":
    main()
