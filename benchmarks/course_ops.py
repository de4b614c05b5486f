"""Which operations the forward pass of the course's CNN spends its time on, compared with the list in the course's first chapter.

Each round profiles a fresh cell of forward passes (64 images of 28×28) as `%%accel profile` does. A share is an
operation's own time (without operations inside it) over that of all operations in the forward, without Python between
them. `share_<operation>` is the median over rounds with the lowest and the highest; `reference_<operation>` is what the
course's author measured on a machine of his own: only the order is expected to be alike.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Any

from accel.workbench import Workbench
from benchmarks.machine_line import report

if TYPE_CHECKING:
    from accel.profiling.profile import Profile

REFERENCE = {
    "mkldnn_convolution": 0.440,
    "max_pool2d_with_indices": 0.300,
    "addmm": 0.137,
    "clamp_min": 0.070,
}
SMALLEST_SHOWN = 0.0005
CELL = """
for images in batches:
    model(images)
"""


def course_notebook(batches: int) -> dict[str, Any]:
    """The course's CNN and batches of 64 random grey images."""
    import torch

    from accel.labs.models import CNN

    torch.manual_seed(0)
    return {"model": CNN(), "batches": [torch.randn(64, 1, 28, 28) for _ in range(batches)]}


def forward_shares(profile: Profile) -> dict[str, float]:
    """Share of each operation of the forward, most expensive first, by its name without `aten::`.

    >>> list(forward_shares(profile))[:2]
    ['mkldnn_convolution', 'max_pool2d_with_indices']
    """
    spent: Counter[str] = Counter()
    for row in profile.rows:
        if row.phase == "forward" and row.op.startswith("aten::"):
            spent[row.op.removeprefix("aten::")] += row.self_ms
    total = sum(spent.values())
    return {op: ms / total for op, ms in spent.most_common()}


def measure(rounds: int, batches: int) -> dict[str, list[float]]:
    """The shares of every round by operation, the largest median first; the first round of a process is left out."""
    workbench = Workbench(course_notebook(batches), spare_workers=0)
    found = [forward_shares(workbench.profile(CELL)) for _ in range(rounds + 1)][1:]
    workbench.close()
    shares = {op: [one.get(op, 0.0) for one in found] for op in found[0]}
    return dict(sorted(shares.items(), key=lambda item: -median(item[1])))


def as_table(shares: dict[str, list[float]]) -> str:
    """Operations next to the reference, as Markdown."""
    lines = ["| operation | measured | reference |", "|---|---|---|"]
    for op, values in shares.items():
        if median(values) < SMALLEST_SHOWN:
            continue
        expected = f"{REFERENCE[op]:.1%}" if op in REFERENCE else ""
        lines.append(f"| `{op}` | {median(values):.1%} [{min(values):.1%}, {max(values):.1%}] | {expected} |")
    return "\n".join(lines).replace("%", " %")


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="a few seconds, and nothing is written")
    quick = arguments.parse_args().quick
    shares = measure(rounds=3 if quick else 20, batches=10 if quick else 30)
    sys.stdout.write(as_table(shares) + "\n")
    figures: dict[str, float] = {}
    for op, reference in REFERENCE.items():
        values = shares.get(op, [0.0])
        kinds = {"": median(values), "_low": min(values), "_high": max(values)}
        figures |= {f"share_{op}{kind}": round(value, 4) for kind, value in kinds.items()}
        figures[f"reference_{op}"] = reference
    report("course_ops", figures, is_full_run=not quick, order=list(shares)[:8], rounds=3 if quick else 20)


if __name__ == "__main__":
    main()
