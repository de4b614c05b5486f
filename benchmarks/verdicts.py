"""How trustworthy are verdicts? A program against itself, and against itself made 5 % slower: quiet, and beside a busy loop.

    python -m benchmarks.verdicts [--quick] [--where quiet busy loaders]

Every trial takes the path of `%accel try` with four plans: the course's CNN (one thread, batches of 32), fresh worker
processes for every relaunch, tokens in random order, the same stopping rule. One plan sets another thread count, one fuses the
optimizer, two switch anomaly detection off; the cell sets all of it back at once, so all sides run the same program. Where
anomaly detection was off it then spins for 5 % of each step. *busy* has another program running that computes all the time on
one core. *loaders* takes the cells of `benchmarks.clock --loaders` in turn, with two plans and without the two other ways to
compare. One plan changes the number of workers, and the cell resets it. The other switches anomaly detection off, and the cell
then spins for 5 % of the epoch before the last update, when no worker has work left.

Two other ways to compare get both questions once a trial, in turns with it: *sequential*, a second of steps of one and then
of the other in the same process, Welch's test at 95 % over the steps; *torch.utils.benchmark*, `blocked_autorange` of a second
each, different where neither median lies within the other's quartiles.

Figures, for each of quiet, busy and loaders: `false_verdict_rate` (the program against itself called faster or slower) with
the upper end of its 95 % interval (two plans of a trial share its baseline, so each pair counts as one and a third),
`detection_5pct` (slower found), `undecided_rate` of both questions, and the same of the other ways. The process runs under a
steady allocator, as after `%accel keep steady_allocator`. An interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from accel.accelerations.steady_allocator import use_steady_thresholds
from accel.measuring.comparison import Comparison
from accel.measuring.interval import student_quantile
from accel.workbench import Workbench
from benchmarks.loader_cells import LOADER_CASES, LoaderCase
from benchmarks.machine_line import report, stored

TRIALS = {"quiet": 100, "busy": 100, "loaders": 24}  # the first two ask both questions twice
QUICK_S = 16.0
EXTRA = 0.05
SHARED = 1.5  # variance of a rate where pairs are correlated by a half, over that of independent answers
SETUP = """
import time
import torch

torch.set_num_threads(1)  # the machine's other core takes what else is going on
torch.autograd.set_detect_anomaly(True)
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from accel.labs.models import CNN

torch.manual_seed(0)
data = TensorDataset(torch.randn(640, 1, 28, 28), torch.randint(0, 10, (640,)))
loader = DataLoader(data, batch_size=32, shuffle=True)
model, criterion = CNN(), nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
threads = torch.get_num_threads()
is_slower = []   # decided once a process: the cell is run again and again
"""

CELL = """
if not is_slower:
    is_slower.append(not torch.is_anomaly_enabled())
torch.set_num_threads(threads)
for options in optimizer.param_groups:
    options["fused"] = None
torch.autograd.set_detect_anomaly(False)
for images, labels in loader:
    began = time.perf_counter()
    optimizer.zero_grad()
    loss = criterion(model(images), labels)
    loss.backward()
    if is_slower[0]:
        until = time.perf_counter() + extra * (time.perf_counter() - began)
        while time.perf_counter() < until:
            pass
    optimizer.step()
"""
LOADER_SETUP = """
torch.set_num_threads(1)
torch.autograd.set_detect_anomaly(True)
is_slower = []
"""
LOADER_CELL = """
if not is_slower:
    is_slower.append(not torch.is_anomaly_enabled())
torch.autograd.set_detect_anomaly(False)
vars(loader).update(num_workers={workers}, prefetch_factor={prefetch}, persistent_workers=False)
began = time.perf_counter()
for number, (x, y) in enumerate(loader, 1):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    if is_slower[0] and number == len(loader):
        until = time.perf_counter() + extra * (time.perf_counter() - began)
        while time.perf_counter() < until:
            pass
    optimizer.step()
"""
SPINNER = """
import subprocess, sys
busy = "import os\\nwhile not os.kill(%s, 0): sum(range(100_000))"  # until the benchmark is over, whatever ends it
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
print(subprocess.Popen([sys.executable, "-c", busy % sys.argv[1]], **quiet).pid)
"""
SAME = ("intraop_threads(n=2)", "fused_optimizer")
SLOWER = ("detect_anomaly_off", "detect_anomaly_off+fused_optimizer")


class Steps:
    """Single steps of the program in this process, for the ways that know no workers."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._names = namespace
        self._batches = list(namespace["loader"])
        self._next = 0

    def step(self, extra: float = 0.0) -> None:
        names, (images, labels) = self._names, self._batches[self._next % len(self._batches)]
        self._next += 1
        began = time.perf_counter()
        names["optimizer"].zero_grad()
        names["criterion"](names["model"](images), labels).backward()
        until = time.perf_counter() + extra * (time.perf_counter() - began)
        while extra and time.perf_counter() < until:
            pass
        names["optimizer"].step()

    def sequential(self, extra: float) -> str:
        """A second of the one, then a second of the other; Welch's test."""
        sides = []
        for spin in (0.0, extra):
            times, until = [], time.perf_counter() + 1.0
            while time.perf_counter() < until:
                began = time.perf_counter()
                self.step(spin)
                times.append(time.perf_counter() - began)
            sides.append(times[3:])
        return welch(*sides)

    def torch_benchmark(self, extra: float) -> str:
        """torch.utils.benchmark's own loop and quartiles."""
        from torch.utils.benchmark import Timer

        one, other = (
            Timer("step(spin)", globals={"step": self.step, "spin": spin}).blocked_autorange(min_run_time=1.0)
            for spin in (0.0, extra)
        )
        overlap = _within(one.median, other) or _within(other.median, one)
        return "no difference" if overlap else "slower" if other.median > one.median else "faster"


def _within(value: float, measured: Any) -> bool:
    low, _, high = (
        statistics.quantiles(measured.times, n=4) if len(measured.times) > 1 else [measured.median] * 3
    )
    return low <= value <= high


def welch(one: list[float], other: list[float]) -> str:
    """Whether the other differs from the one, as most people would test it.

    Source: Welch, "The generalization of Student's problem", Biometrika 1947.
    """
    errors = [statistics.variance(side) / len(side) for side in (one, other)]
    freedom = sum(errors) ** 2 / sum(
        error**2 / (len(side) - 1) for error, side in zip(errors, (one, other), strict=True)
    )
    t = (statistics.fmean(one) - statistics.fmean(other)) / math.sqrt(sum(errors))
    if abs(t) < student_quantile(0.975, max(freedom, 1.0)):
        return "no difference"
    return "faster" if t > 0 else "slower"


@contextmanager
def busy_loop() -> Iterator[int]:
    """Somebody else's program that computes all the time, on one core: its parent has ended, so it is no child of ours."""
    command = [sys.executable, "-c", SPINNER, str(os.getpid())]
    started = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    try:
        yield int(started.stdout)
    finally:
        with suppress(ProcessLookupError):
            os.kill(int(started.stdout), signal.SIGKILL)


class Questions:
    """Asks a trial the same two questions about a cell, again and again; `plans` are the plans of both questions."""

    def __init__(self, setup: str, cell: str, plans: tuple[str, ...]) -> None:
        use_steady_thresholds()
        self.plans = plans
        self.namespace: dict[str, Any] = {"__name__": "__main__", "extra": EXTRA}
        exec(compile(setup, "<setup>", "exec"), self.namespace)
        self.workbench = Workbench(self.namespace, spare_workers=0)
        self.profile = self.workbench.profile(cell)
        self.namespace["is_slower"].clear()

    def ask(self, budget_s: float | None = None) -> dict[str, Any]:
        """One trial."""
        import torch

        began = time.monotonic()
        torch.autograd.set_detect_anomaly(True)  # as the workload's notebook has it
        ladder: Any = self.workbench.try_(*self.plans, budget_s=budget_s)
        torch.autograd.set_detect_anomaly(False)
        is_slower = {row.plan: "detect_anomaly_off" in row.plan for row in ladder.rows}
        return {
            "same": [_plain(row) for row in ladder.rows if not is_slower[row.plan]],
            "slower": [_plain(row) for row in ladder.rows if is_slower[row.plan]], "seconds": round(time.monotonic() - began, 1),
            "busy": any("machine was busy" in note for note in ladder.notes),
        }  # fmt: skip

    def close(self) -> None:
        self.workbench.close()


class CourseQuestions(Questions):
    """Questions about the course's CNN; the two other ways to compare answer them too."""

    def __init__(self) -> None:
        super().__init__(SETUP, CELL, (*SAME, *SLOWER))
        optimizer_share = next(phase.share for phase in self.profile.phases if phase.name == "optimizer")
        # The spin is given as a share of forward and backward; 5 % of the whole step is a little more of that part.
        self.extra = self.namespace["extra"] = EXTRA / (1 - optimizer_share)
        self.steps = Steps(self.namespace)

    def asked(self, number: int, budget_s: float | None = None) -> dict[str, Any]:
        """One trial, and one answer of each of the other ways to each question."""
        return self.ask(budget_s) | {
            "sequential": [self.steps.sequential(0.0), self.steps.sequential(self.extra)],
            "torch_benchmark": [self.steps.torch_benchmark(0.0), self.steps.torch_benchmark(self.extra)],
        }


class LoaderQuestions:
    """About the cells that wait for their loader, another one each time."""

    def asked(self, number: int, budget_s: float | None = None) -> dict[str, Any]:
        """A trial of the cell of this number, on a notebook of its own."""
        case = LOADER_CASES[number % len(LOADER_CASES)]
        questions = loader_questions(case)
        try:
            return {"cell": case.name, **questions.ask(budget_s)}
        finally:
            questions.close()

    def close(self) -> None:
        """Nothing is open between two trials."""


def loader_questions(case: LoaderCase) -> Questions:
    """All sides run the loader with the workers that the case's plan gives it."""
    cell = LOADER_CELL.format(workers=case.gets, prefetch=2 if case.gets else None)
    same = f"loader_workers(n={2 if case.gets == 1 else 1})"
    return Questions(case.setup + LOADER_SETUP, cell, (same, SLOWER[0]))


def _plain(row: Comparison) -> dict[str, Any]:
    shown = row.shown
    if shown is None:
        return {"verdict": "undecided", "ratio": None}
    return {
        "verdict": row.verdict, "ratio": round(shown.ratio, 4), "low": round(shown.low, 4), "high": round(shown.high, 4),
        "relaunches": shown.relaunches,
    }  # fmt: skip


def figures_of(where: str, asked: list[dict[str, Any]]) -> dict[str, float]:
    """Rates over all questions of one sort."""
    same, slower = ([row for each in asked for row in each[question]] for question in ("same", "slower"))
    wrong = [row["verdict"] in ("faster", "slower") for row in same]
    counts_for = SHARED if len(same) > len(asked) else 1.0
    figures = {
        f"{where}/questions": float(len(same)),
        f"{where}/false_verdict_rate": rate(wrong),
        f"{where}/false_verdict_rate_high": wilson_high(sum(wrong) / counts_for, len(wrong) / counts_for),
        f"{where}/detection_5pct": rate(row["verdict"] == "slower" for row in slower),
        f"{where}/undecided_rate_same": rate(row["verdict"] == "undecided" for row in same),
        f"{where}/undecided_rate_5pct": rate(row["verdict"] == "undecided" for row in slower),
        f"{where}/said_busy": rate(each["busy"] for each in asked),
        f"{where}/seconds_median": statistics.median(each["seconds"] for each in asked),
    }
    ratios = [row["ratio"] for row in same if row["ratio"]]
    if len(ratios) > 1:
        figures[f"{where}/ratio_sd"] = statistics.stdev(ratios)
    for way in ("sequential", "torch_benchmark"):
        if way not in asked[0]:
            continue
        figures[f"{where}/{way}_false_verdict_rate"] = rate(each[way][0] != "no difference" for each in asked)
        figures[f"{where}/{way}_detection_5pct"] = rate(each[way][1] == "slower" for each in asked)
    return figures


def wilson_high(hits: float, trials: float) -> float:
    """Upper end of the 95 % Wilson interval of a rate: with 0 of 100 seen, the true rate may still be 3.7 %."""
    z, seen = 1.96, hits / trials
    centre = seen + z * z / (2 * trials)
    half = z * ((seen * (1 - seen) + z * z / (4 * trials)) / trials) ** 0.5
    return float((centre + half) / (1 + z * z / trials))


def rate(found: Any) -> float:
    """The share of yes."""
    answers = list(found)
    return sum(answers) / len(answers)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="one short trial each, under a minute; nothing is written"
    )
    parser.add_argument("--where", nargs="+", choices=tuple(TRIALS), default=("quiet", "busy"))
    usual = ", ".join(f"{where} {count}" for where, count in TRIALS.items())
    parser.add_argument("--trials", type=int, help=f"number of trials of each kind (default: {usual})")
    parser.add_argument(
        "--minutes", type=float, default=170.0, help="start no trial after so long (default: 170)"
    )
    parser.add_argument("--again", action="store_true", help="forget what an earlier run measured")
    given = parser.parse_args()
    asked: dict[str, list[dict[str, Any]]] = {}
    if not given.again and not given.quick:
        asked = stored("verdicts").get("asked", {})
    until = time.monotonic() + 60 * given.minutes
    made: dict[type, CourseQuestions | LoaderQuestions] = {}
    try:
        for where in given.where:
            kind = LoaderQuestions if where == "loaders" else CourseQuestions
            questions = made[kind] = made.get(kind) or kind()
            wanted = 1 if given.quick else given.trials or TRIALS[where]
            answers = asked.setdefault(where, [])
            with busy_loop() if where == "busy" else nullcontext():
                while len(answers) < wanted and time.monotonic() < until:
                    answers.append(questions.asked(len(answers), QUICK_S if given.quick else None))
                    sys.stderr.write(f"{where} {len(answers)}: {json.dumps(answers[-1])}\n")
    finally:
        for questions in made.values():
            questions.close()
        figures = {
            name: value
            for where, each in asked.items()
            if each
            for name, value in figures_of(where, each).items()
        }
        report("verdicts", figures, is_full_run=not given.quick, asked=asked)


if __name__ == "__main__":
    main()
