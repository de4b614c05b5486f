"""Find the fastest batch by measuring: climb by doubling for as long as samples a second rise beyond the intervals."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from accel.accelerations.batch_size import BatchSize
from accel.accelerations.plan import Plan
from accel.bounds import check_samples, check_seconds
from accel.errors import AccelError, NotApplicable
from accel.measuring.comparison import Comparison
from accel.measuring.fastest_batch import BatchRung, FastestBatch, is_faster
from accel.workers.trial import Trial
from accel.workers.trial_rows import refused_row

if TYPE_CHECKING:
    from accel.measuring.ladder import Ladder
    from accel.workbench.workbench import Workbench
    from accel.workload.workload import Workload

Watch: TypeAlias = "Callable[[Trial, str], Ladder]"

UP, DOWN = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0), (0.5, 0.25)
BUDGET_S = 360.0
LEAST_S = 10.0  # a trial with less time than this tells nothing


class BatchSearch:
    """Both neighbours of the present batch in one trial, then on in the direction that was faster, one size a trial.

    >>> BatchSearch(workbench, workload, largest=1024).run()

    `largest` bounds the batch, `budget_s` the search (None: 360 s). A size that does not fit into memory is a row, not the end.
    `watch` waits for each of its trials, with the sizes that it measures in words.
    """

    def __init__(
        self, workbench: Workbench, workload: Workload, *,
        largest: int | None = None, budget_s: float | None = None, watch: Watch | None = None,
    ) -> None:  # fmt: skip
        check_samples(f"fastest_batch(largest={largest})", largest)
        check_seconds(f"fastest_batch(budget_s={budget_s})", budget_s)
        self._workbench, self._workload, self._largest = workbench, workload, largest
        self._watch = watch or (lambda trial, _about: trial.wait())
        self._present = _present_batch(workload)
        self._deadline = time.monotonic() + (BUDGET_S if budget_s is None else budget_s)
        self._rungs = {1.0: BatchRung(self._present, "")}
        self._why_ended = ""

    def run(self) -> FastestBatch:
        """Measure until the next size is no faster, does not fit, or time is up."""
        self._measure([UP[0], DOWN[0]])
        rows = [rung.row for rung in self._rungs.values() if rung.row is not None]
        if all(row.state == "not applicable" for row in rows):
            raise NotApplicable("batch_size", list(dict.fromkeys(row.error for row in rows)))
        for factors in (UP, DOWN):
            self._climb(factors)
        rungs = sorted(self._rungs.values(), key=lambda rung: rung.batch)
        return FastestBatch(tuple(rungs), self._present, self._workbench.machine.line, self._why_ended)

    def _climb(self, factors: Sequence[float]) -> None:
        """Further, while the last size is told faster than the one before it."""
        before, last = 1.0, factors[0]
        for further in factors[1:]:
            if not is_faster(self._rungs[last].speed, self._rungs[before].speed):
                return
            if self._deadline - time.monotonic() < LEAST_S:
                self._why_ended = (
                    "Time was up before samples a second stopped rising: give it more with --budget-s."
                )
                return
            self._measure([further])
            before, last = last, further

    def _measure(self, factors: list[float]) -> None:
        """One trial; a size that cannot be, or whose worker fails (memory, above all), has its reason in its row."""
        plans = {factor: Plan((BatchSize(factor=factor),)) for factor in factors}
        rows: dict[float, Comparison] = {}
        for factor, plan in plans.items():
            if reasons := self._reasons(factor):
                rows[factor] = refused_row(str(plan), " ".join(reasons))
        tried = {factor: plan for factor, plan in plans.items() if factor not in rows}
        rows |= zip(tried, self._try(list(tried.values())), strict=True)
        for factor, row in rows.items():
            batch = max(1, round(self._present * factor))
            self._rungs[factor] = BatchRung(batch, str(plans[factor]), row)

    def _reasons(self, factor: float) -> list[str]:
        batch = max(1, round(self._present * factor))
        if self._largest is not None and batch > self._largest:
            return [f"{batch:,} is more than the largest batch you asked for. Raise --largest to try it."]
        return BatchSize(factor=factor).why_not(self._workload, self._workbench.machine)

    def _about(self, plans: list[Plan]) -> str:
        factors = [entry.factor for plan in plans for entry in plan.entries if isinstance(entry, BatchSize)]
        sizes = " and ".join(f"{max(1, round(self._present * factor)):,}" for factor in factors)
        return f"Measuring batches of {sizes} samples against {self._present:,}."

    def _try(self, plans: list[Plan]) -> list[Comparison]:
        if not plans:
            return []
        seconds = max(self._deadline - time.monotonic(), LEAST_S)
        trial = self._workbench.try_(*plans, wait=False, budget_s=seconds)
        assert isinstance(trial, Trial)
        try:
            ladder = self._watch(trial, self._about(plans))
        except AccelError:
            ladder = trial.ladder
            if not all(row.state == "failed" for row in ladder.rows):  # the baseline itself failed
                raise
        if trial.state == "stopped":
            self._why_ended = "The search was stopped."
        return [ladder[str(plan)] for plan in plans]


def _present_batch(workload: Workload) -> int:
    samples = workload.samples_per_step
    if not samples:
        raise AccelError(
            "%accel batch",
            because="how many samples a step of this cell holds was not seen",
            do="Profile a cell that takes its batches from a torch.utils.data.DataLoader.",
        )
    return samples // max(workload.accumulation, 1)
