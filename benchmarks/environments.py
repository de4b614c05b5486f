"""What OpenMP runtimes, their settings and allocators gain on a CPU, each in processes that were started with it.

    python -m benchmarks.environments [--quick] [--only PLAN …]

The course's CNN (batch 64) and DenseNet121 (batch 8) train as in a notebook, all plans in turns with the cell as it is: one
ladder of `%accel try` for each model. A plan whose environment or package is not here has the reason in place of figures.

Figures, `column/model: plan`: `ratio` with its 95 % interval, `faults` a step with the plan, and beside it `baseline faults`.
`took_effect_share` is the share of plans that a process read back as in force. The course measured on 16 threads, its CNN on
CIFAR-10: default 178 s, GNU's runtime bound 114 s, Intel's 102 s; DenseNet121 with Intel's runtime 1,318 s.
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

from accel.errors import AccelError
from accel.measuring.comparison import Comparison
from accel.workbench import Workbench
from benchmarks.clock_cells import CASES, Case
from benchmarks.machine_line import report

MODELS = ("cnn", "densenet121")
PLANS = (
    "steady_allocator", "allocator", 'allocator("jemalloc")', "omp_wait_policy", 'omp_wait_policy("active")', "openmp_affinity",
    "intel_openmp", "intel_openmp+allocator",
)  # fmt: skip
QUICK = ("omp_wait_policy",)
BUDGET_S, QUICK_S = 300.0, 30.0


def measure(case: Case, plans: tuple[str, ...], budget_s: float) -> dict[str, Any]:
    """One ladder: a row for each plan, with its figures or the reason why there are none."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(case.setup, "<setup>", "exec"), namespace)
    workbench = Workbench(namespace)
    try:
        workbench.profile(case.cell)
        ladder: Any = workbench.try_(*plans, budget_s=budget_s)
        sys.stderr.write(f"{case.name}: {ladder}\n\n")
        return {row.plan: shown(row) for row in ladder.rows if row.plan != "baseline"}
    except AccelError as error:  # none of them can be tried here
        sys.stderr.write(f"{case.name}: {error}\n")
        return {}
    finally:
        workbench.close()


def shown(row: Comparison) -> dict[str, Any]:
    """What is kept of a row."""
    if row.shown is None:
        return {"why_not": row.sentence}
    return {
        "ratio": row.shown.ratio, "low": row.shown.low, "high": row.shown.high, "verdict": row.verdict,
        "faults": row.page_faults, "took_effect": bool(row.proofs) and all(took for _, took, _ in row.proofs),
        "proof": "; ".join(_without_folders(evidence) for _, _, evidence in row.proofs),
    }  # fmt: skip


def _without_folders(evidence: str) -> str:
    """Files by their names: where they lie is of this machine alone."""
    return re.sub(r"(?<=\s)/\S*/", "", evidence)


def figures_of(models: dict[str, dict[str, Any]]) -> dict[str, float]:
    """The rows that have figures, by model and plan."""
    figures: dict[str, float] = {}
    rows = {
        f"{model}: {plan}": row
        for model, each in models.items()
        for plan, row in each.items()
        if "ratio" in row
    }
    for name, row in rows.items():
        figures |= {
            f"ratio/{name}": row["ratio"],
            f"ratio/{name}/low": row["low"],
            f"ratio/{name}/high": row["high"],
        }
        if row["faults"]:
            figures |= {f"baseline faults/{name}": row["faults"][0], f"faults/{name}": row["faults"][1]}
    if rows:
        figures["took_effect_share"] = sum(row["took_effect"] for row in rows.values()) / len(rows)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="one plan on the CNN, under a minute; nothing is written"
    )
    parser.add_argument(
        "--only", nargs="+", default=list(PLANS), metavar="PLAN", help="these plans only; nothing is written"
    )
    given = parser.parse_args()
    by_name = {case.name: case for case in CASES}
    if given.quick:
        found = {"cnn": measure(by_name["cnn"], QUICK, QUICK_S)}
    else:
        found = {name: measure(by_name[name], tuple(given.only), BUDGET_S) for name in MODELS}
    is_full_run = not given.quick and given.only == list(PLANS)
    report("environments", figures_of(found), is_full_run=is_full_run, models_tried=found)


if __name__ == "__main__":
    main()
