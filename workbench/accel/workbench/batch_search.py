"""Find the fastest batch by measuring: climb by doubling for as long as samples a second rise beyond the intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from accel.accelerations.batch_size import BatchSize
from accel.bounds import check_samples, check_seconds
from accel.errors import AccelError, NotApplicable, Reason
from accel.measuring.comparison import Comparison
from accel.measuring.fastest_batch import BatchRung, FastestBatch, is_faster
from accel.measuring.took import Took, nice
from accel.plans.plan import Plan
from accel.workers.time_budget import TimeBudget
from accel.workers.trial_rows import refused_row

if TYPE_CHECKING:
    from accel.measuring.ladder import Ladder
    from accel.workbench.notebook_state import NotebookState
    from accel.workers.trial import Trial
    from accel.workload.workload import Workload

Watch: TypeAlias = "Callable[[Trial, str], Ladder]"

UP, DOWN = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0), (0.5, 0.25)
BUDGET_S = 360.0
LEAST_S = 10.0  # a trial with less time than this tells nothing


class BatchSearch:
    """Both neighbours of the present batch in one trial, then on in the direction that was faster, one size a trial.

    >>> BatchSearch(workbench, workload, workbench.try_, largest=1024).run()

    `largest` bounds the batch, `budget_s` the search (None: 360 s). A size that does not fit into memory is a row, not the end.
    `try_plans` is `Workbench.try_`; `watch` waits for each of its trials, with the sizes that it measures in words.
    """

    def __init__(
        self, workbench: NotebookState, workload: Workload, try_plans: Callable[..., Any], *,
        largest: int | None = None, budget_s: float | None = None, watch: Watch | None = None,
    ) -> None:  # fmt: skip
        check_samples(f"fastest_batch(largest={largest})", largest)
        check_seconds(f"fastest_batch(budget_s={budget_s})", budget_s)
        self._workbench, self._workload, self._largest = workbench, workload, largest
        self._try_plans = try_plans
        self._watch = watch or (lambda trial, _about: trial.wait())
        self._present = _present_batch(workbench, workload)
        self._budget = TimeBudget(budget_s, usual_s=BUDGET_S)
        self._rungs = {1.0: BatchRung(self._present, "")}
        self._why_ended = self._advice = ""

    def _took(self) -> Took:
        ended_by = self._why_ended or "the next size is no faster, or is not possible"
        return Took(self._budget.used_s, self._budget.asked_s, (), ended_by, self._advice)

    def run(self) -> FastestBatch:
        """Measure until the next size is no faster, does not fit, or time is up."""
        self._measure([UP[0], DOWN[0]])
        rows = [rung.row for rung in self._rungs.values() if rung.row is not None]
        if all(row.state == "not applicable" for row in rows):
            refused = dict.fromkeys(tuple(self._reasons(factor)) for factor in (UP[0], DOWN[0]))
            raise NotApplicable("batch_size", [reason for each in refused for reason in each])
        for factors in (UP, DOWN):
            self._climb(factors)
        rungs = sorted(self._rungs.values(), key=lambda rung: rung.batch)
        return FastestBatch(tuple(rungs), self._present, self._workbench.machine.line, self._took())

    def _climb(self, factors: Sequence[float]) -> None:
        """Further, while the last size is told faster than the one before it."""
        before, last = 1.0, factors[0]
        for further in factors[1:]:
            if not is_faster(self._rungs[last].speed, self._rungs[before].speed):
                self._note_what_is_open(self._rungs[last])
                return
            if self._budget.left_s < LEAST_S:
                self._end("the time was up before samples a second stopped rising")
                return
            self._measure([further])
            before, last = last, further

    def _note_what_is_open(self, rung: BatchRung) -> None:
        """A size that is no faster ends the search; one that was not measured, or is undecided, only leaves it open."""
        if self._why_ended or rung.row is None or rung.row.state != "done":
            return
        if rung.speed is None:
            self._end("the time was up")
        elif rung.row.verdict == "undecided":
            self._end(f"whether {rung.batch:,} samples are faster is undecided")

    def _end(self, why: str) -> None:
        self._why_ended = why
        self._advice = f"--budget-s {nice(2 * max(self._budget.used_s, self._budget.seconds))} goes further."

    def _measure(self, factors: list[float]) -> None:
        """One trial; a size that cannot be, or whose worker fails (memory, above all), has its reason in its row."""
        plans = {factor: Plan((BatchSize(factor=factor),)) for factor in factors}
        rows: dict[float, Comparison] = {}
        for factor, plan in plans.items():
            if reasons := self._reasons(factor):
                rows[factor] = refused_row(str(plan), reasons)
        tried = {factor: plan for factor, plan in plans.items() if factor not in rows}
        rows |= zip(tried, self._try(list(tried.values())), strict=True)
        for factor, row in rows.items():
            batch = max(1, round(self._present * factor))
            self._rungs[factor] = BatchRung(batch, str(plans[factor]), row)

    def _reasons(self, factor: float) -> list[Reason]:
        batch = max(1, round(self._present * factor))
        if self._largest is not None and batch > self._largest:
            return [
                Reason(
                    f"{batch:,} is more than the largest batch you asked for", "Raise --largest to try it."
                )
            ]
        return BatchSize(factor=factor).why_not(self._workload, self._workbench.machine)

    def _about(self, plans: list[Plan]) -> str:
        factors = [entry.factor for plan in plans for entry in plan.entries if isinstance(entry, BatchSize)]
        sizes = " and ".join(f"{max(1, round(self._present * factor)):,}" for factor in factors)
        return f"Measuring batches of {sizes} samples against {self._present:,}."

    def _try(self, plans: list[Plan]) -> list[Comparison]:
        if not plans:
            return []

        def rows_of(trial: Trial) -> list[Comparison]:
            ladder = self._ladder_of(trial, self._about(plans))
            return [ladder[str(plan)] for plan in plans]

        rows: list[Comparison] = self._try_plans(*plans, budget_s=self._seconds_of_trial(), watch=rows_of)
        return rows

    def _ladder_of(self, trial: Trial, about: str) -> Ladder:
        try:
            ladder = self._watch(trial, about)
        except AccelError:
            ladder = trial.ladder
            if not all(row.state == "failed" for row in ladder.rows):  # the baseline itself failed
                raise
        if trial.state == "stopped":
            self._why_ended = "you stopped the search"
        return ladder

    def _seconds_of_trial(self) -> float | None:
        """The first leaves half of the time for going on from it; where nobody asked for a time, a trial takes its usual one."""
        if not self._budget.is_strict:
            return None
        left_s = max(self._budget.left_s, 0.1)
        is_first = len(self._rungs) == 1
        return max(left_s / 2, min(left_s, LEAST_S)) if is_first else left_s


def _present_batch(workbench: NotebookState, workload: Workload) -> int:
    """What the training's loader puts together; a cell may split its batches, and an epoch's only batch may be smaller."""
    with workbench.live.suspended():
        loader = workload.objects().loaders.get(workbench.training_loader or "")
        if batch := getattr(loader, "batch_size", None):
            return int(batch)
    samples = workload.samples_per_step
    if not samples:
        raise AccelError(
            "%accel batch",
            because="how many samples a step of this cell holds was not seen",
            do="Profile a cell that takes its batches from a torch.utils.data.DataLoader.",
        )
    return samples // max(workload.accumulation, 1)
