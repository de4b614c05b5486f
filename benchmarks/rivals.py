"""Is the cell that `%accel tune` finds and exports faster than what other libraries recommend for the same model?

    python -m benchmarks.rivals [--quick] [--only MODEL …] [--budget-s 120]

Five models are profiled and tuned, for a training of 50,000 steps. Then fresh processes run each way to train one, all ways
once a turn, in random order:

- *plain*, the cell as it is; *exported*, the cell that `%accel export` wrote; *compile*, `model = torch.compile(model)` alone.
- *lightning*: `lightning.Trainer` as Lightning's guide to speed recommends, as far as it can work on a CPU: `bf16-mixed`, loader
  workers as its own warning suggests (CPUs less one), persistent ones; logger, checkpoints, progress bar and summary off.
  *lightning_own_loader*: the same with the cell's own loader; *lightning_fp32*: that in `32-true`.
- *accelerate*: `Accelerator(mixed_precision="bf16", cpu=True)`, `prepare` and `accelerator.backward`, as its quicktour has it;
  *accelerate_fp32*: the same without mixed precision.

A process runs the cell until it has taken so long; its time a step is the median of the runs but the first two (an epoch each).
Where other programs took CPU time with it, it runs once more.

Figures: of each way its speed over the plain cell's in the same turn, the median of the turns with the lowest and highest;
`tune`, what its answer claimed. A cell without a plan proven faster stays the plain cell: its `tune` and `exported` are 1.
`…/setup_s`: seconds that the first two runs took longer than later ones (compiling, in the first turn: with nothing cached);
`…/break_even_steps`: steps until a faster way has made up for that; `…/loss`: mean loss of the first 20 steps (or the first
epoch) over that of the plain cell; `budget_used_s`: what tune took; `ahead`: 1 if the exported cell is faster than the
fastest rival, by 2 % at least; `disturbed_share`: of the processes, those with which others took CPU time at each attempt.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

from accel.machine import read_machine
from accel.machine.peaks.other_work import OtherWork
from benchmarks.clock import MARK, in_fresh_python, spread, tuned
from benchmarks.clock_cells import CASES, Case
from benchmarks.machine_line import report, stored
from benchmarks.rival_ways import RIVALS, Way

MODELS = ("cnn", "densenet121", "resnet18", "transformer", "lstm")
LEVEL = 0.98  # of the other's speed: closer than that, neither is ahead
STEPS = 50_000  # of the real training, for all ways: compiling pays off


@dataclass(frozen=True)
class Effort:
    """How much is measured: of the search, and of the clock."""

    budget_s: float = 120.0
    include: tuple[str, ...] = ()
    rivals: tuple[str, ...] = tuple(RIVALS)
    turns: int = 5
    run_s: float = 2.0  # a process runs its cell until it took so long
    attempts: int = 2


QUICK = Effort(
    14.0, ("fused_optimizer",), ("compile", "lightning", "accelerate"), turns=1, run_s=0.2, attempts=1
)

FRESH = """
import json
from benchmarks.rival_ways import Way, clocked
print({mark!r} + json.dumps(clocked({setup!r}, {way!r}, {seconds})))
"""


def ways_of(case: Case, exported: str, rivals: Sequence[str]) -> dict[str, Way]:
    """Ways to train this model; without an exported cell, all but that."""
    own = {"exported": Way(cell=exported)} if exported else {}
    return {"plain": Way(cell=case.cell), **own, **{name: RIVALS[name] for name in rivals}}


def in_turns(case: Case, ways: Mapping[str, Way], effort: Effort) -> dict[str, list[dict[str, Any]]]:
    """Each way in a process of its own, once a turn, in random order."""
    order = Random(0)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in ways}
    with TemporaryDirectory() as caches:
        for turn in range(effort.turns):
            for name in order.sample(list(ways), len(ways)):
                text = FRESH.format(mark=MARK, setup=case.setup, way=ways[name], seconds=effort.run_s)
                runs[name].append(undisturbed(text, Path(caches, name), effort.attempts))
                sys.stderr.write(f"{case.name}, turn {turn}: {name} {json.dumps(runs[name][-1])}\n")
    return runs


def undisturbed(text: str, compiled: Path, attempts: int) -> dict[str, Any]:
    """What a fresh process prints; where others took CPU time it runs again, and what had compiled nothing has nothing again."""
    is_cold, threads = not compiled.exists(), read_machine().torch_threads
    for _ in range(attempts):
        if is_cold:
            shutil.rmtree(compiled, ignore_errors=True)
        with OtherWork(threads) as others:
            run = in_fresh_python(text, TORCHINDUCTOR_CACHE_DIR=str(compiled))
        if not others.disturbed:
            break
    return {**run, "disturbed": others.disturbed, "others": round(others.share, 3)}


def measure(case: Case, effort: Effort) -> dict[str, Any]:
    """A model tuned, then all ways in turns."""
    row = tuned(case, effort.budget_s, 1, effort.include, steps=STEPS)
    runs = in_turns(case, ways_of(case, row.get("exported", ""), effort.rivals), effort)
    ways = {name: compared(own, runs["plain"]) for name, own in runs.items()}
    of_tune = {key: row[key] for key in ("plan", "answer", "took", "took_s", "step_ms", "searched")}
    return {
        **of_tune, "claimed": row.get("claimed", [1.0]), "verdict": verdict(row["plan"], ways), "ways": ways, "runs": runs,
    }  # fmt: skip


def compared(runs: list[dict[str, Any]], plain: list[dict[str, Any]]) -> dict[str, Any]:
    """One way next to the plain cell of the same turns.

    >>> compared([{"step_ms": 5.0, "setup_s": 9.0, "loss": 2.0}], [{"step_ms": 10.0, "setup_s": 1.0, "loss": 2.0}])
    {'ratio': [2.0, 2.0, 2.0], 'setup_s': 9.0, 'loss': 1.0, 'break_even_steps': 1600.0}
    """
    ratios = [base["step_ms"] / own["step_ms"] for own, base in zip(runs, plain, strict=True)]
    answer = {
        "ratio": spread(ratios),
        "setup_s": runs[0]["setup_s"],
        "loss": runs[0]["loss"] / plain[0]["loss"],
    }
    saved_s = median(base["step_ms"] - own["step_ms"] for own, base in zip(runs, plain, strict=True)) / 1000
    if saved_s > 0:
        answer["break_even_steps"] = max(0.0, runs[0]["setup_s"] - plain[0]["setup_s"]) / saved_s
    return answer


def verdict(plan: str, ways: Mapping[str, Any]) -> str:
    """Where the exported cell stands next to the fastest rival.

    >>> verdict("compile", {"exported": {"ratio": [1.3]}, "compile": {"ratio": [1.2]}, "accelerate": {"ratio": [1.4]}})
    'behind accelerate: 1.30 against 1.40'
    """
    own = ways["exported"]["ratio"][0] if plan else 1.0
    rival = max((name for name in ways if name in RIVALS), key=lambda name: ways[name]["ratio"][0])
    best = ways[rival]["ratio"][0]
    where = "ahead of" if own * LEVEL > best else "level with" if own >= LEVEL * best else "behind"
    said = f"{where} {rival}: {own:.2f} against {best:.2f}"
    return said if plan else f"{said}; tune proved nothing faster, so its cell is the plain one"


def figures_of(cells: Mapping[str, Any]) -> dict[str, float]:
    """Of all models, by way."""
    figures: dict[str, float] = {}
    for model, row in cells.items():
        figures |= _interval(f"tune/{model}", row["claimed"])
        figures |= {} if row["plan"] else {f"exported/{model}": 1.0}
        for name, way in row["ways"].items():
            if name != "plain":
                figures |= _interval(f"{name}/{model}", way["ratio"])
                figures |= {f"{name}/{model}/{key}": way[key] for key in way if key != "ratio"}
        figures[f"budget_used_s/{model}"] = row["took_s"]
        figures[f"disturbed_share/{model}"] = fmean(
            run["disturbed"] for runs in row["runs"].values() for run in runs
        )
        figures[f"ahead/{model}"] = float(row["verdict"].startswith("ahead"))
    return figures


def _interval(name: str, ratio: list[float]) -> dict[str, float]:
    return dict(zip((name, f"{name}/low", f"{name}/high"), ratio, strict=False))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tiny model, one turn; nothing is written")
    parser.add_argument("--only", nargs="+", choices=MODELS, help="these models; rows of others stay")
    parser.add_argument(
        "--budget-s", type=float, default=Effort.budget_s, help="of each search (default: 120)"
    )
    parser.add_argument("--turns", type=int, default=Effort.turns, help=argparse.SUPPRESS)
    given = parser.parse_args()
    by_name = {case.name: case for case in CASES}
    if given.quick:
        rows = {"mlp_tiny": measure(by_name["mlp_tiny"], QUICK)}
        report("rivals", figures_of(rows), is_full_run=False, cells=rows)
        return
    cells = stored("rivals").get("cells", {}) if given.only else {}
    for name in given.only or MODELS:
        cells[name] = measure(by_name[name], Effort(given.budget_s, turns=given.turns))
        sys.stderr.write(f"{name}: {cells[name]['verdict']}\n")
        in_order = {each: cells[each] for each in MODELS if each in cells}
        report("rivals", figures_of(in_order), is_full_run=True, cells=in_order)


if __name__ == "__main__":
    main()
