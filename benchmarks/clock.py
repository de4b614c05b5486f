"""Does the speed-up that a trial claims hold on the user's clock, in the notebook and in a fresh process?

    python -m benchmarks.clock [--quick] [--loaders] [--only CELL …] [--budget-s 60]

Twelve training cells of different kinds; on a machine with a GPU, three that train there. In a process that stands for the
notebook each is profiled and tuned; then its own loop runs in turns: plain, with the plan kept, and after undo. Then pairs of
fresh processes run the cell as it is and the cell that `%accel export` wrote, one at a time, half a second each: this machine
is shared, and has slow and fast seconds. A run's time is wall time over its steps, without the first runs of each kind
(compiling, first touches).

Figures: `inside_notebook_share` and `inside_fresh_share`, the share of cells whose ratio on the clock lies inside the interval
that the answer claimed (for a fresh process, and "here" where it names that apart); `faster_notebook_share` and
`faster_fresh_share`, the share in which the plan was faster at all; `undone`, the median over cells of the time after undo over
that before. `cells` has each cell's plan, interval and both ratios with the lowest and highest of the turns. A cell without a
plan proven faster claims nothing and counts in none of these.

With `--loaders`: twelve cells that wait for their loader. Each cell gets one trial with another number of workers. Whatever the
verdict, the trial's interval counts as a claim about the epoch time. `loaders_inside_…` covers all measured cells,
`loaders_called_faster` counts those called faster, and `loaders_faster_…` is the share of the latter that were faster.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from statistics import median
from typing import Any

import torch

from benchmarks.clock_cells import CASES, CASES_ON_GPU, Case
from benchmarks.loader_cells import LOADER_CASES, LoaderCase
from benchmarks.machine_line import report, stored

TURNS = 5  # of notebook and of fresh processes
LEAST_RUN_S, LEAST_LOADER_RUN_S = 1.0, 3.0  # a turn runs the cell again until it took so long
WARM_TURNS, PAIRED_TURNS, TURN_S = 2, 4, 0.5  # of a pair of fresh processes
MARK = "clock:"

FRESH = """
import json, sys, time
namespace = {{"__name__": "__main__"}}
exec(compile({setup!r}, "<setup>", "exec"), namespace)
code = compile({code!r}, "<cell>", "exec")
for line in sys.stdin:  # a turn: as many runs as fit into so many seconds
    times, until = [], time.perf_counter() + float(line)
    while not times or time.perf_counter() < until:
        began = time.perf_counter()
        exec(code, namespace)
        times.append(time.perf_counter() - began)
    print({mark!r} + json.dumps(times), flush=True)
"""


def timed(run: Any, seconds: float) -> float:
    """Seconds of one run, the median of as many as fit."""
    times: list[float] = []
    until = time.perf_counter() + seconds
    while not times or time.perf_counter() < until:
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return median(times)


def in_notebook(
    case: Case, budget_s: float, turns: int, include: list[str], steps: int | None
) -> dict[str, Any]:
    """Profile, tune or try, then the notebook's own loop before, with the plan, and after undo; and what was exported."""
    from accel.workbench import Workbench

    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(case.setup, "<setup>", "exec"), namespace)
    workbench = Workbench(namespace)
    code = compile(case.cell, "<cell>", "exec")

    def run() -> None:
        exec(code, namespace)

    try:
        run()
        profile = workbench.profile(case.cell)
        if isinstance(case, LoaderCase):
            told, claimed = tried(workbench, case.plan, budget_s)
        else:
            told, claimed = searched(workbench, budget_s, include, steps)
        sys.stderr.write(f"{case.name}: {told['answer']} {told['took']}\n\n")
        answer: dict[str, Any] = {"step_ms": profile.step_ms, "plan": "", **told}
        if claimed is None:
            return answer
        shown, here = claimed.shown, claimed.here or claimed.shown
        workbench.pool.close()  # spare workers that wait are no part of a notebook that trains
        before, kept, after = [], [], []
        least_s = LEAST_LOADER_RUN_S if isinstance(case, LoaderCase) else LEAST_RUN_S
        for _ in range(turns):
            before.append(timed(run, least_s))
            workbench.keep(claimed.plan)
            run()
            kept.append(timed(run, least_s))
            exported = workbench.export().code
            workbench.undo()
            run()
            after.append(timed(run, least_s))
        ratios = [b / k for b, k in zip(before, kept, strict=True)]
        return answer | {
            "plan": claimed.plan, "claimed": [shown.ratio, shown.low, shown.high], "notebook": spread(ratios),
            "claimed_here": [here.low, here.high],
            "undone": median(a / b for a, b in zip(after, before, strict=True)), "exported": exported,
        }  # fmt: skip
    finally:
        workbench.close()


def searched(
    workbench: Any, budget_s: float, include: list[str], steps: int | None
) -> tuple[dict[str, Any], Any]:
    """What tune answers, and the row of the plan that it claims to be faster."""
    tuning = workbench.tune(budget_s=budget_s, include=include, exclude=["ddp"], steps=steps)
    sys.stderr.write(f"{tuning}\n")
    return {
        "answer": tuning.answer, "took": str(tuning.took), "took_s": tuning.took.seconds, "searched": len(tuning.searched),
    }, tuning.best  # fmt: skip


def tried(workbench: Any, plan: str, budget_s: float) -> tuple[dict[str, Any], Any]:
    """What a trial says of one plan, and its row where it was measured; or in words why not."""
    from accel.errors import AccelError

    try:
        ladder = workbench.try_(plan, budget_s=budget_s)
    except AccelError as error:
        return {"answer": str(error), "verdict": "", "took": "", "took_s": 0.0}, None
    sys.stderr.write(f"{ladder}\n")
    row = ladder.rows[0]
    told = {
        "answer": row.sentence,
        "verdict": row.verdict,
        "took": str(ladder.took),
        "took_s": ladder.took.seconds,
    }
    return told, row if row.shown else None


def in_fresh_processes(case: Case, exported: str, turns: int) -> list[float]:
    """Median, lowest and highest ratio of the cell as it is over the exported one, of pairs of fresh processes.

    One of them runs at a time, the other waits: a machine that is shared has slow and fast seconds, and these are for both.
    """
    return spread([_ratio_of_a_pair(case, exported) for _ in range(turns)])


def _ratio_of_a_pair(case: Case, exported: str) -> float:
    codes, times = (case.cell, exported), ([], [])  # type: tuple[str, str], tuple[list[float], list[float]]
    pair = [_started(FRESH.format(setup=case.setup, code=code, mark=MARK)) for code in codes]
    try:
        for process in pair:
            for _ in range(WARM_TURNS):  # compiling, and the state that memory comes to
                _turn(process, TURN_S)
        for number in range(2 * PAIRED_TURNS):
            which = number % 2
            times[which].append(median(_turn(pair[which], TURN_S)))
    finally:
        for process in pair:
            process.communicate()  # the end of its input ends it
    return median(base / own for base, own in zip(*times, strict=True))


def _started(text: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def _turn(process: subprocess.Popen[str], seconds: float) -> list[float]:
    """The times of the runs that a process makes in its turn."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{seconds}\n")
    for line in process.stdout:
        if line.startswith(MARK):
            times: list[float] = json.loads(line.removeprefix(MARK))
            return times
    raise RuntimeError(f"the cell failed in a fresh process, which ended with {process.wait()}")


def in_fresh_python(text: str, **environment: str) -> Any:
    """What a fresh interpreter prints after the mark."""
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not lines:
        raise RuntimeError(f"the cell failed in a fresh process:\n{done.stderr[-3000:]}")
    return json.loads(lines[-1].removeprefix(MARK))


def spread(ratios: list[float]) -> list[float]:
    return [median(ratios), min(ratios), max(ratios)]


def tuned(
    case: Case, budget_s: float, turns: int, include: tuple[str, ...] = (), steps: int | None = None
) -> dict[str, Any]:
    """What `in_notebook` finds, in a process of its own; `steps` of the real training, if not the case's."""
    given = {
        "--inside": case.name,
        "--budget-s": budget_s,
        "--turns": turns,
        "--steps": steps or case.steps or 0,
    }
    command = [
        sys.executable,
        "-m",
        "benchmarks.clock",
        *(str(word) for pair in given.items() for word in pair),
    ]
    command += ["--include", *include] if include else []
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "ACCEL_HISTORY": "off"}
    )
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1].removeprefix(MARK))
    return row


def measure(case: Case, budget_s: float, turns: int, include: tuple[str, ...] = ()) -> dict[str, Any]:
    """A cell in a notebook's process of its own, then in fresh ones."""
    row = tuned(case, budget_s, turns, include)
    if row["plan"]:
        row["fresh"] = in_fresh_processes(case, row.pop("exported"), turns)
    return row


def figures_of(cells: dict[str, Any], prefix: str = "") -> dict[str, float]:
    """Figures of the cells that have a plan. A tried plan's interval counts as a claim, whatever its verdict."""
    if not cells:
        return {}
    rows = [row for row in cells.values() if row["plan"]]
    faster = [row for row in rows if row.get("verdict", "faster") == "faster"]
    figures: dict[str, float] = {f"{prefix}cells": len(cells), f"{prefix}with_a_plan": len(rows)}
    if any("verdict" in row for row in rows):
        figures[f"{prefix}called_faster"] = len(faster)
    for where, claim in (("notebook", "claimed_here"), ("fresh", "claimed")):
        if rows:
            inside = [row[claim][-2] <= row[where][0] <= row[claim][-1] for row in rows]
            figures[f"{prefix}inside_{where}_share"] = sum(inside) / len(rows)
        if faster:
            is_faster = [row[where][0] > 1 for row in faster]
            figures[f"{prefix}faster_{where}_share"] = sum(is_faster) / len(faster)
    if rows:
        figures[f"{prefix}undone"] = median(row["undone"] for row in rows)
    for name, row in cells.items():
        if row["plan"]:
            figures |= {
                f"claimed/{name}": row["claimed"][0], f"claimed/{name}/low": row["claimed"][1],
                f"claimed/{name}/high": row["claimed"][2], f"notebook/{name}": row["notebook"][0],
                f"claimed_here/{name}/low": row["claimed_here"][0], f"claimed_here/{name}/high": row["claimed_here"][1],
                f"fresh/{name}": row["fresh"][0],
            }  # fmt: skip
    return figures


def main() -> None:
    usual = CASES_ON_GPU if torch.cuda.is_available() else CASES
    by_name = {case.name: case for case in (*CASES, *CASES_ON_GPU, *LOADER_CASES)}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one cell, under a minute; nothing is written")
    parser.add_argument("--loaders", action="store_true", help="the cells that wait for their loader")
    parser.add_argument("--only", nargs="+", choices=list(by_name), help="these cells; rows of others stay")
    parser.add_argument(
        "--budget-s", type=float, default=90.0, help="seconds for each search or trial (default: 90)"
    )
    parser.add_argument("--turns", type=int, default=TURNS, help=argparse.SUPPRESS)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--include", nargs="*", default=[], help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        case, steps = by_name[given.inside], given.steps or None
        answer = in_notebook(case, given.budget_s, given.turns, given.include, steps)
        sys.stdout.write(f"{MARK}{json.dumps(answer)}\n")
        return
    if given.quick and given.loaders:
        row = measure(by_name["sleep_0_to_4"], 20.0, 1)
        report("clock", figures_of({"sleep_0_to_4": row}, "loaders_"), is_full_run=False)
        return
    if given.quick:
        row = measure(by_name["mlp_tiny"], 25.0, 1, include=("fused_optimizer",))
        report("clock", figures_of({"mlp_tiny": row}), is_full_run=False)
        return
    cells, loaders = (stored("clock").get(kind, {}) for kind in ("cells", "loaders"))
    if not given.only:
        (loaders if given.loaders else cells).clear()
    for name in given.only or [case.name for case in (LOADER_CASES if given.loaders else usual)]:
        rows = loaders if isinstance(by_name[name], LoaderCase) else cells
        rows[name] = measure(by_name[name], given.budget_s, given.turns)
        sys.stderr.write(f"{name}: {json.dumps(rows[name])}\n")
        report(
            "clock",
            figures_of(cells) | figures_of(loaders, "loaders_"),
            is_full_run=True,
            cells={each: cells[each] for each in by_name if each in cells},
            loaders={each: loaders[each] for each in by_name if each in loaders},
        )


if __name__ == "__main__":
    main()
