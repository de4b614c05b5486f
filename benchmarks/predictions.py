"""How good the predictions of the findings are: predicted and measured speed-up, for cells that have the fault.

Each cell is profiled as a user would, in a process of its own. What its finding suggests is then measured: a plan by a trial
(`%accel try`), an edit by the mended cell, run in turns with the cell as it was, in random order, in one process. The predicted
interval comes from the profile alone, before anything is measured. Together, the cells cover every rule that predicts a gain
on a CPU.

`inside` is how many measured speed-ups lie inside the predicted interval, `inside_share` their share, `overlap_share` the share
of measured intervals that overlap the predicted one (a wide measurement contradicts little), `median_error`
the median of how far the predicted figure was off (0.1: 10 % too much or too little), `median_interval_width` the median ratio of
the predicted interval's upper end to its lower end (an interval that holds everything says nothing), `cases` how many were
measured. Each figure is given for all cases, and apart for `fitted` ones, whose figures went into the ranges of their rule, and
`held_out` ones, to which nothing was fitted: only those show how good a prediction for another cell is.

`findings` counts all predictions in these profiles, `predicted_below_1` those that predict a slowdown: the predicted speed-up, or
the middle of its interval, is below 1.

Every case is in `details`: share of the step, predicted and measured speed-up with interval, verdict, the machine's load before
it. `notes` say how busy the machine was. A speed-up of an edit is of the whole cell, on as many samples. All cases run on one
thread; only the cases about threads set or try others.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from statistics import median
from typing import Any

import numpy as np
import torch

from accel.errors import AccelError
from accel.machine import read_machine
from accel.profiling.findings import Finding
from accel.workbench import Workbench
from benchmarks.clock import MARK, in_fresh_python
from benchmarks.faulty_case import Case
from benchmarks.faulty_cells import CASES
from benchmarks.machine_line import report, stored

FEWEST_PAIRS = 10
EDIT_S = 40.0  # for running a cell and the mended one in turns
QUICK = ("doubles converted each step", "MLP of 1024 units, plain Adam")
QUICK_S = 12.0
ATTEMPTS = 3  # a profile that other work disturbed is taken again, as a user would

IN_ITS_PROCESS = """
import json
from benchmarks.predictions import answer_of
print({mark!r} + json.dumps(answer_of({name!r}, {budget_s!r})))
"""


@dataclass(frozen=True)
class Measured:
    """One case: what was predicted, what came out."""

    case: str
    rule: str
    remedy: str
    share: float
    predicted: float
    predicted_low: float
    predicted_high: float
    measured: float
    measured_low: float
    measured_high: float
    verdict: str
    baseline_ms: float
    pairs: int
    is_fitted: bool = False
    load_before: float | None = None

    @property
    def is_inside(self) -> bool:
        """Whether the measured ratio lies in the predicted interval."""
        return self.predicted_low <= self.measured <= self.predicted_high

    @property
    def overlaps(self) -> bool:
        """Whether the measured interval and the predicted one have anything in common: no contradiction was found."""
        return self.predicted_low <= self.measured_high and self.measured_low <= self.predicted_high

    @property
    def error(self) -> float:
        """How far the predicted ratio is off, as a factor less one."""
        return math.exp(abs(math.log(self.predicted / self.measured))) - 1.0

    @property
    def width(self) -> float:
        """How many times its lower end the predicted interval's upper end is."""
        return self.predicted_high / self.predicted_low

    def to_dict(self) -> dict[str, Any]:
        more = {
            "is_inside": self.is_inside,
            "overlaps": self.overlaps,
            "error": self.error,
            "width": self.width,
        }
        return asdict(self) | more

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Measured:
        """As `to_dict` gave it."""
        return cls(**{each.name: row[each.name] for each in fields(cls) if each.name in row})

    def __str__(self) -> str:
        predicted = f"{self.predicted:.2f}× [{self.predicted_low:.2f}, {self.predicted_high:.2f}]"
        measured = f"{self.measured:.2f}× [{self.measured_low:.2f}, {self.measured_high:.2f}]"
        where = "inside" if self.is_inside else "OUTSIDE"
        return f"{self.case:<28} {self.remedy:<24} predicted {predicted:<24} measured {measured:<24} {where}"


def namespace_of(setup: str) -> dict[str, Any]:
    """A notebook's variables after the cells of `setup`."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(setup, namespace)
    return namespace


def asked(case: Case, budget_s: float | None) -> dict[str, Any]:
    """Run `answer_of` for this case in its own process, so that what a cell leaves switched on ends with it."""
    text = IN_ITS_PROCESS.format(mark=MARK, name=case.name, budget_s=budget_s)
    try:
        answer: dict[str, Any] = in_fresh_python(text, **case.environment)
    except RuntimeError as error:
        return {"why": str(error), "predicted": []}
    return answer


def answer_of(name: str, budget_s: float | None) -> dict[str, Any]:
    """What was measured of a case, or why nothing was; and all that the findings of its profile predict."""
    case = next(case for case in CASES if case.name == name)
    torch.set_num_threads(1)  # other work on the machine makes every thread wait for the slowest
    workbench = Workbench(namespace_of(case.setup))
    try:
        result = measure(workbench, case, budget_s=budget_s)
    except AccelError as error:
        result = str(error)
    finally:
        workbench.close()
    findings = workbench.profile_result.findings if workbench.profile_result is not None else ()
    predicted = [
        {"kind": each.kind, **asdict(each.prediction)} for each in findings if each.prediction is not None
    ]
    told = {"why": result} if isinstance(result, str) else {"measured": result.to_dict()}
    return {**told, "predicted": predicted}


def measure(workbench: Workbench, case: Case, *, budget_s: float | None = None) -> Measured | str:
    """Profile, predict, measure; or in words why that gave nothing. Without a budget no trial is cut short."""
    if (
        case.mended
    ):  # it has run before, as it will have when it is timed: compiled code lies on disk, for example
        exec(compile(case.cell, "<cell>", "exec"), workbench.namespace)
    finding = find(workbench, case)
    if finding is None:
        return "the rule found nothing"
    if finding.prediction is None:
        return "the rule predicts nothing"
    if case.mended:
        return by_edit(case, finding, budget_s=budget_s or EDIT_S)
    return by_trial(workbench, case, finding, budget_s=budget_s)


def find(workbench: Workbench, case: Case) -> Finding | None:
    """The finding of the case's rule in a profile of its cell."""
    for _ in range(ATTEMPTS):
        profile = workbench.profile(case.cell)
        for finding in profile.findings:
            if finding.kind == case.rule:
                return finding
    return None


def by_trial(workbench: Workbench, case: Case, finding: Finding, *, budget_s: float | None) -> Measured | str:
    """Try what the finding suggests first."""
    if not finding.suggests:
        return f"nothing to try: {finding.remedy}"
    row = workbench.try_(finding.suggests[0], budget_s=budget_s, timeout_s=180).rows[0]  # type: ignore[union-attr]
    shown = row.headline or row.steady
    if shown is None:
        return row.sentence
    return Measured(
        case.name, case.rule, row.plan, *_predicted(finding), shown.ratio, shown.low, shown.high, row.verdict,
        row.baseline_ms, shown.pairs,
    )  # fmt: skip


def by_edit(case: Case, finding: Finding, *, budget_s: float) -> Measured:
    """Run the cell and the mended cell in turns, each on variables of its own."""
    sides = {
        False: (namespace_of(case.setup), compile(case.cell, "<cell>", "exec")),
        True: (namespace_of(case.mended_setup or case.setup), compile(case.mended, "<mended cell>", "exec")),
    }
    for namespace, code in sides.values():
        exec(code, namespace)
    order, ratios, before_s = random.Random(0), [], []
    until = time.monotonic() + budget_s
    while time.monotonic() < until or len(ratios) < FEWEST_PAIRS:
        seconds = {}
        for is_mended in order.sample([True, False], 2):
            namespace, code = sides[is_mended]
            begin = time.perf_counter_ns()
            exec(code, namespace)
            seconds[is_mended] = (time.perf_counter_ns() - begin) / 1e9
        ratios.append(math.log(seconds[False] / seconds[True]))
        before_s.append(seconds[False])
    low, middle, high = _interval(ratios)
    verdict = "faster" if low > 1 else "slower" if high < 1 else "undecided"
    return Measured(
        case.name,
        case.rule,
        "edit",
        *_predicted(finding),
        middle,
        low,
        high,
        verdict,
        1e3 * median(before_s),
        len(ratios),
    )


def _predicted(finding: Finding) -> tuple[float, float, float, float]:
    prediction = finding.prediction
    assert prediction is not None  # asked before
    return finding.share, prediction.ratio, prediction.low, prediction.high


def _interval(ratios: list[float]) -> tuple[float, float, float]:
    """Median with its 95 % percentile bootstrap interval, from logarithms back to ratios."""
    draws = np.random.default_rng(0).choice(ratios, size=(4000, len(ratios)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return math.exp(low), math.exp(median(ratios)), math.exp(high)


def figures_of(found: Sequence[Measured]) -> dict[str, float]:
    """All figures, for all cases and for those that ranges were fitted to and those that they were not.

    >>> figures_of(found)["held_out_inside_share"]
    """
    groups = {"": found, "fitted_": [each for each in found if each.is_fitted],
              "held_out_": [each for each in found if not each.is_fitted]}  # fmt: skip
    return {
        name + figure: value for name, group in groups.items() for figure, value in _figures(group).items()
    }


def _figures(found: Sequence[Measured]) -> dict[str, float]:
    if not found:
        return {"cases": 0.0}
    return {
        "cases": float(len(found)),
        "inside": float(sum(each.is_inside for each in found)),
        "inside_share": round(sum(each.is_inside for each in found) / len(found), 3),
        "overlap_share": round(sum(each.overlaps for each in found) / len(found), 3),
        "median_error": round(median(each.error for each in found), 3),
        "median_interval_width": round(median(each.width for each in found), 3),
    }


def below_1(predicted: Sequence[dict[str, Any]]) -> dict[str, float]:
    """How many findings predict something, and how many of these predict a slowdown.

    >>> below_1([{"kind": "layout_nchw", "ratio": 1.05, "low": 0.63, "high": 1.07}])
    {'findings': 1.0, 'predicted_below_1': 1.0}
    """
    middles = [min(each["ratio"], math.sqrt(max(each["low"], 0.0) * each["high"])) for each in predicted]
    return {
        "findings": float(len(predicted)),
        "predicted_below_1": float(sum(middle < 1 for middle in middles)),
    }


def notes_on_load(loads: Sequence[float], cores: int) -> list[str]:
    """How busy the machine was before each case; a case before it leaves a load of about one itself.

    >>> notes_on_load([0.9, 1.2, 6.8], cores=2)
    ['load average before the cases: median 1.2, at most 6.8, on 2 cores', 'other work took part: at times the load was above 3']
    """
    if not loads:
        return ["the load of the machine is not known"]
    notes = [
        f"load average before the cases: median {median(loads):.1f}, at most {max(loads):.1f}, on {cores} cores"
    ]
    if max(loads) > cores + 1:
        notes.append(f"other work took part: at times the load was above {cores + 1}")
    return notes


def _load() -> float | None:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="two cases, short trials; nothing is written")
    arguments.add_argument(
        "--only", default="", metavar="WORDS", help="run only cases whose name or rule has WORDS; others keep their results"
    )  # fmt: skip
    given = arguments.parse_args()
    kept = stored("predictions") if given.only and not given.quick else {}
    found = {row["case"]: Measured.from_dict(row) for row in kept.get("details", [])}
    predicted: dict[str, list[dict[str, Any]]] = kept.get("predicted", {})
    missing: dict[str, str] = kept.get("not_measured", {})
    try:
        for case in CASES:
            if case.name in QUICK if given.quick else given.only in f"{case.name}, {case.rule}":
                load = _load()
                answer = asked(case, QUICK_S if given.quick else None)
                predicted[case.name] = answer["predicted"]
                for earlier in (found, missing):
                    earlier.pop(case.name, None)
                if "measured" in answer:
                    measured = Measured.from_dict(answer["measured"])
                    found[case.name] = replace(measured, is_fitted=case.is_fitted, load_before=load)
                else:
                    missing[case.name] = answer["why"]
                sys.stderr.write(f"{found.get(case.name) or f'{case.name}: {missing[case.name]}'}\n")
    finally:
        rows = [found[case.name] for case in CASES if case.name in found]
        loads = [row.load_before for row in rows if row.load_before is not None]
        all_predicted = [each for case in CASES for each in predicted.get(case.name, [])]
        report(
            "predictions", figures_of(rows) | below_1(all_predicted), is_full_run=not given.quick,
            notes=notes_on_load(loads, read_machine().usable_cores), details=[each.to_dict() for each in rows],
            not_measured={case.name: missing[case.name] for case in CASES if case.name in missing},
            predicted=predicted,
        )  # fmt: skip


if __name__ == "__main__":
    main()
