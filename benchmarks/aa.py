"""How trustworthy are verdicts? Trials of a program against itself, and against itself made 5 % slower.

    python -m benchmarks.aa [--quick]

Every trial takes the path of `%accel try`: the course's CNN (one thread, batches of 32), fresh worker processes for every
relaunch, tokens in random order, the same stopping rule. The plan sets another thread count and the cell sets it back at
once, so both sides run the same program; in the "5 %" trials the side with the plan then also spins for 5 % of its step.

Figures: `false_verdict_rate` (A/A called faster or slower), `ratio_sd` (standard deviation of the A/A speed-ups),
`detection_5pct` (slower found), with counts. The process runs under a steady allocator, as after
`%accel keep steady_allocator`, so the figures are of the stage that tells plans apart.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

from accel.accelerations.steady_allocator import use_steady_thresholds
from accel.measuring.comparison import Comparison
from accel.workbench import Workbench
from benchmarks.machine_line import report

SETUP = """
import time
import torch

torch.set_num_threads(1)  # the machine's other core takes what else is going on
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from accel.labs.models import CNN

torch.manual_seed(0)
data = TensorDataset(torch.randn(640, 1, 28, 28), torch.randint(0, 10, (640,)))
loader = DataLoader(data, batch_size=32, shuffle=True)
model, criterion = CNN(), nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
threads = torch.get_num_threads()
is_candidate = []   # decided once a process: the cell is run again and again
"""

CELL = """
if not is_candidate:
    is_candidate.append(torch.get_num_threads() != threads)
torch.set_num_threads(threads)
for images, labels in loader:
    began = time.perf_counter()
    optimizer.zero_grad()
    loss = criterion(model(images), labels)
    loss.backward()
    if is_candidate[0]:
        until = time.perf_counter() + extra * (time.perf_counter() - began)
        while time.perf_counter() < until:
            pass
    optimizer.step()
"""


def main() -> None:
    arguments = _arguments()
    use_steady_thresholds()
    namespace: dict[str, Any] = {"__name__": "__main__", "extra": 0.0}
    exec(compile(SETUP, "<setup>", "exec"), namespace)
    workbench = Workbench(namespace, spare_workers=0)
    profile = workbench.profile(CELL)
    optimizer_share = next(phase.share for phase in profile.phases if phase.name == "optimizer")
    # The spin is given as a share of forward and backward; 5 % of the whole step is a little more of that part.
    spin = 0.05 / (1 - optimizer_share)
    until = time.monotonic() + 60 * arguments.minutes
    same: list[Comparison] = []
    longer: list[Comparison] = []
    while len(same) < arguments.trials and (time.monotonic() < until or len(same) < 2):
        same.append(_one(workbench, 0.0, len(same)))
        if len(longer) < arguments.slower * len(same) // arguments.trials:
            longer.append(_one(workbench, spin, len(longer)))
    workbench.close()
    report(
        "aa",
        _figures(same, longer),
        is_full_run=not arguments.quick,
        trials=[_plain(row) for row in (*same, *longer)],
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two A/A trials and one of 5 %%, under a minute")
    parser.add_argument(
        "--minutes", type=float, default=90, help="start no trial after so long (default: 90)"
    )
    parser.add_argument("--trials", type=int, default=100, help="A/A trials (default: 100)")
    parser.add_argument("--slower", type=int, default=40, help="trials of 5 %% (default: 40)")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.trials, arguments.slower = 2, 1
    return arguments


def _one(workbench: Workbench, extra: float, number: int) -> Comparison:
    workbench.namespace["extra"] = extra
    workbench.namespace["is_candidate"].clear()
    other = 2 if workbench.namespace["threads"] == 1 else 1
    began = time.monotonic()
    row = workbench.try_(f"intraop_threads(n={other})").rows[0]
    sys.stderr.write(
        f"{number:>3} {'+5 %' if extra else 'A/A'}: {row.sentence} ({time.monotonic() - began:.0f} s)\n"
    )
    return row


def _figures(same: list[Comparison], longer: list[Comparison]) -> dict[str, float]:
    wrong = [row for row in same if row.verdict in ("faster", "slower")]
    return {
        "false_verdict_rate": len(wrong) / len(same),
        "false_verdict_rate_high": wilson_high(len(wrong), len(same)),
        "ratio_sd": statistics.stdev(_ratio(row) for row in same),
        "ratio_median": statistics.median(_ratio(row) for row in same),
        "undecided_rate": sum(row.verdict == "undecided" for row in same) / len(same),
        "detection_5pct": sum(row.verdict == "slower" for row in longer) / len(longer),
        "ratio_5pct_median": statistics.median(_ratio(row) for row in longer),
        "aa_trials": len(same),
        "trials_5pct": len(longer),
    }


def wilson_high(hits: int, trials: int) -> float:
    """Upper end of the 95 % Wilson interval of a rate: with 0 of 100 seen, the true rate may still be 3.7 %."""
    z, rate = 1.96, hits / trials
    centre = rate + z * z / (2 * trials)
    half = z * ((rate * (1 - rate) + z * z / (4 * trials)) / trials) ** 0.5
    return float((centre + half) / (1 + z * z / trials))


def _ratio(row: Comparison) -> float:
    shown = row.steady or row.headline
    assert shown is not None
    return shown.ratio


def _plain(row: Comparison) -> dict[str, Any]:
    shown = row.steady or row.headline
    assert shown is not None
    return {
        "verdict": row.verdict, "ratio": round(shown.ratio, 4), "low": round(shown.low, 4), "high": round(shown.high, 4),
        "relaunches": shown.relaunches, "pairs": shown.pairs,
    }  # fmt: skip


if __name__ == "__main__":
    main()
