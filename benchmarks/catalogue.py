"""What each acceleration gives on the course's CNN and on DenseNet121: every entry that can work here, one by one.

    python -m benchmarks.catalogue [--quick] [--model cnn28 …] [--only PLAN …]

Each cell trains on handwritten digits in the shape of the model's course data set: `cnn28` (the CNN, 1×28×28, batch 64),
`cnn32` (3×32×32, batch 64), `densenet` (torchvision's DenseNet121, 3×32×32, batch 16). Plans run as a user runs them, by
`%accel try`, some together in turns with the baseline, on copies. An entry that cannot work here is listed with the reason.

The figures are `<model>/<plan>`: the speed-up as the notebook runs where that was measured, else under a steady allocator, and
`…/low`, `…/high` of its 95 % interval. `models` in the result holds the rows: verdict, both intervals, quality, effect on
training, what was read back. A run of one model leaves those of the others in the file as they are.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from accel.accelerations import CATALOGUE
from accel.errors import AccelError, in_words
from accel.measuring.comparison import Comparison
from accel.plans.plan import Plan
from accel.workbench import Workbench
from benchmarks.machine_line import report, stored

SETUP = """
import torch
from torch import nn
from torch.utils.data import DataLoader
from accel.labs import CNN, load_dataset

torch.manual_seed(0)
torch.set_num_threads({threads})
loader = DataLoader(load_dataset("digits", shape={shape}), batch_size={batch}, shuffle=True, drop_last=True)
model = {model}
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
"""
CELL = """
for images, labels in loader:
    optimizer.zero_grad()
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
"""
DENSENET = "__import__('torchvision').models.densenet121(num_classes=10)"
MODELS = {
    "cnn28": {"model": "CNN()", "shape": (1, 28, 28), "batch": 64},
    "cnn32": {"model": "CNN(channels=3, size=32)", "shape": (3, 32, 32), "batch": 64},
    "densenet": {"model": DENSENET, "shape": (3, 32, 32), "batch": 16},
}
# Other knobs than the default ones that an entry is measured with, and combinations worth knowing.
ALSO = (
    "intraop_threads(n=1)",
    'autocast(dtype="fp16")',
    'batch_size(factor=4, lr_rule="linear")',
    'compile_model(scope="regions")',
    'compile_model(scope="step")',
    "prune(sparsity=0.8)",
    "compile_model+fused_optimizer",
    'autocast(dtype="bf16")+channels_last',
    'autocast(dtype="bf16")+channels_last+fused_optimizer',
    'autocast(dtype="bf16")+channels_last+fused_optimizer+steady_allocator',
)
INSTALLED = re.compile(r"/\S*/site-packages/")  # a result names no folder of the machine it is from
QUICK = ("channels_last", "fused_optimizer")
TOGETHER = 5  # candidates of one trial: so many processes and the baseline's hold a copy each


def plans_for(workbench: Workbench, wanted: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Plans that can be tried on the profiled cell, and the reasons against the others."""
    known = [str(Plan.parse(text)) for text in (*(entry.name for entry in CATALOGUE), *ALSO)]
    can, cannot = [], {}
    assert workbench.workload is not None
    for text in dict.fromkeys(wanted or known):
        reasons = Plan.parse(text).why_not(workbench.workload, workbench.machine)
        if reasons:
            cannot[text] = in_words(chain(*reasons.values()))
        else:
            can.append(text)
    return can, cannot


def measure(model: str, wanted: Sequence[str], *, budget_s: float | None = None) -> dict[str, Any]:
    """All plans on one model: rows by plan, and why the others were not measured; without a budget none is cut short."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(SETUP.format(threads=_threads(), **MODELS[model]), namespace)
    workbench = Workbench(namespace)
    rows: dict[str, Any] = {}
    try:
        workbench.profile(CELL)
        can, cannot = plans_for(workbench, wanted)
        for group in _groups(can):
            began = time.monotonic()
            try:
                ladder = workbench.try_(*group, budget_s=budget_s, timeout_s=180)
            except AccelError as error:
                cannot |= dict.fromkeys(group, str(error))
                continue
            for row in ladder.rows:  # type: ignore[union-attr]
                rows[row.plan] = as_row(row)
            sys.stderr.write(f"{model}: {', '.join(group)} in {time.monotonic() - began:.0f} s\n{ladder}\n\n")
    finally:
        workbench.close()
    return {"rows": rows, "not_applicable": cannot, "threads": _threads(), "load_after": os.getloadavg()[0]}


def as_row(row: Comparison) -> dict[str, Any]:
    """What is kept of a plan's comparison."""
    intervals = {
        name: [round(each.ratio, 3), round(each.low, 3), round(each.high, 3)] if each else None
        for name, each in (("as_notebook", row.headline), ("steady", row.steady))
    }
    return {
        "verdict": row.verdict, "sentence": row.sentence, **intervals, "effect": row.effect,
        "quality": row.quality.following, "quality_sentence": str(row.quality), "state": row.state,
        "baseline_ms": row.baseline_ms, "candidate_ms": row.candidate_ms,
        "proofs": [list(proof) for proof in row.proofs], "notes": [INSTALLED.sub("", note) for note in row.notes],
    }  # fmt: skip


def figures_of(models: dict[str, Any]) -> dict[str, float]:
    """Speed-up and interval of every row that has one."""
    figures: dict[str, float] = {}
    for model, measured in models.items():
        for plan, row in measured["rows"].items():
            if interval := row["as_notebook"] or row["steady"]:
                name = f"{model}/{plan}"
                figures |= dict(zip((name, f"{name}/low", f"{name}/high"), interval, strict=True))
    return figures


def _groups(plans: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(plans), TOGETHER):
        yield plans[start : start + TOGETHER]


def _threads() -> int:
    import torch

    return torch.get_num_threads()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two plans on the CNN; nothing is written")
    parser.add_argument(
        "--model", nargs="+", choices=list(MODELS), default=list(MODELS), help="these models only"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="PLAN", help="these plans only; rows of others stay"
    )
    given = parser.parse_args()
    models = stored("catalogue").get("models", {})
    if given.quick:
        measured = {"cnn28": measure("cnn28", given.only or QUICK, budget_s=25.0)}
        report("catalogue", figures_of(measured), is_full_run=False, models=measured)
        return
    for model in given.model:
        measured = measure(model, given.only)
        if given.only and model in models:
            before = models[model]
            measured["rows"] = before["rows"] | measured["rows"]
            refused = before["not_applicable"] | measured["not_applicable"]
            measured["not_applicable"] = {
                plan: why for plan, why in refused.items() if plan not in measured["rows"]
            }
        models[model] = measured
        in_order = {name: models[name] for name in MODELS if name in models}
        report("catalogue", figures_of(in_order), is_full_run=True, models=in_order)


if __name__ == "__main__":
    main()
