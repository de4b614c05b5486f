"""The plan that `%accel keep` takes when none is named: the best of the last trial, by speed or by quality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError
from accel.measuring.ladder import speed
from accel.measuring.time_to_quality import TimeToQuality
from accel.measuring.tuning import Tuning
from accel.plans.plan import Plan
from accel.workers.trial_rows import how_to_keep

if TYPE_CHECKING:
    from accel.measuring.ladder import Ladder
    from accel.workers.any_trial import AnyTrial

FOUND_NONE = {
    False: "no plan of the last trial was faster with training as it is",
    True: "no plan of the last trial was sooner as good, or better after equal seconds",
}
MEASURED_NONE = {
    False: ("the last trial measured no plan", "with a longer --budget-s"),
    True: ("the last trial was stopped before it measured a plan", "again"),
}


def best_plan(trials: Sequence[AnyTrial], *, is_for_kernel: bool = False) -> Plan:
    """The best plan of the last trial; raises AccelError where there is none, or it is not for this process.

    >>> str(best_plan(workbench.trials))
    'channels_last'
    """
    if not trials:
        raise AccelError(
            "%accel keep",
            because="nothing was tried for this cell yet",
            do="Run %accel try first, or name a plan.",
        )
    result = trials[-1].result
    if result.best is None:
        began = [
            row
            for row in result.rows
            if row.state in ("waiting", "measuring", "confirming", "done", "stopped")
        ]
        if not isinstance(result, TimeToQuality) and began and not any(row.shown for row in result.rows):
            command = "%accel tune" if isinstance(result, Tuning) else "%accel try"
            why, how = MEASURED_NONE[any(row.state == "stopped" for row in began)]
            raise AccelError(
                "%accel keep", because=why, do=f"Run {command} {how}, or name a plan to keep it anyway."
            )
        rows = [row for row in result.rows if row.state == "done" and row.plan != "baseline"]
        if isinstance(result, Tuning):  # the first may be one that was left out
            rows = [result.ahead] if result.ahead is not None else []
        tried = [row.plan for row in rows]
        raise AccelError(
            "%accel keep", because=FOUND_NONE[isinstance(result, TimeToQuality)],
            do=f"Name the plan to keep all the same: %accel keep {tried[0]}" if tried else "Name a plan, or try others.",
        )  # fmt: skip
    plans = {str(plan): plan for plan in trials[-1].plans}
    best = plans[result.best.plan]
    if best.group is not None or (best.started and not is_for_kernel):
        elsewhere = [text for text, plan in plans.items() if plan.group is not None or plan.started]
        second = _best_of_others(result, elsewhere)
        instead = f" For this process: %accel keep {second.plan}" if second is not None else ""
        why = (
            "trains on several processes, and a notebook is one" if best.group is not None
            else "needs a process that is started with it, and this kernel runs already"
        )  # fmt: skip
        raise AccelError(
            "%accel keep", because=f"the best plan, {best}, {why}", do=how_to_keep(best) + instead
        )
    return best


def _best_of_others(result: Any, elsewhere: Sequence[str]) -> Any:
    """The best of the plans that this process can take."""
    if isinstance(result, Tuning):
        good = [row for row in result.confirmed if result.may_be_kept(row) and row.plan not in elsewhere]
        return max(good, key=speed, default=None)
    return replace(result, rows=tuple(row for row in result.rows if row.plan not in elsewhere)).best


def summary(trial: AnyTrial | None) -> str:
    """A trial in one line: its state, what was asked if it was by quality, and what to do; while it runs, each plan.

    >>> summary(workbench.trials[-1])
    'done, 41 s; Keep channels_last: 1.8 to 2.0× faster, loss follows'
    """
    if trial is None:
        return "none"
    result: Ladder | TimeToQuality | Tuning = trial.result
    told = [f"{trial.state if trial.is_over else trial.phases.now}, {trial.seconds:.0f} s"]
    if isinstance(result, TimeToQuality):
        told.append(result.headline)
    if trial.is_over and result.summary:
        told.append(result.summary.removesuffix("."))
    elif isinstance(result, Tuning):
        told.append(result.answer)
    else:
        told += [f"{row.plan}: {_answer(result, row.plan)}" for row in result.rows if row.plan != "baseline"]
    return "; ".join(told)


def _answer(result: Ladder | TimeToQuality, plan: str) -> str:
    return result.answer(plan).sentence if isinstance(result, TimeToQuality) else result[plan].sentence
