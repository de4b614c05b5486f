"""About how long one relaunch takes, before anything has run: what does not fit into a budget is said at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accel.measuring.took import nice
from accel.plans.plan import Plan
from accel.units import counted
from accel.workers.relaunch import FEWEST_ROUNDS, LEAST_WARM_UP
from accel.workers.step_block import Pipeline, StepBlock

COMPILING_S = 20.0  # what compiling a small model takes on a few cores; not known before it is done
SHIPPING_S = 0.5
QUIET_START_S = 5.0  # what importing torch takes on a quiet machine, at the most
FIRST_SHARE = 0.6  # share of the budget for the first relaunch, so that the budget yields an answer


def compiling_s(name: str, calls: float) -> float:
    """About how long TorchInductor compiles a model of so many calls of operations in its forward pass, or an optimizer's step.

    >>> round(compiling_s("compile_model", 563)), round(compiling_s("compile_optimizer", 2_549))
    (25, 37)

    Nested calls count. Measured on two cores: models of 58 calls 12 s, 313 calls 16 s, 563 calls 23 s, 3,832 calls 116 s;
    optimizers of 435 calls 3 s, 2,549 calls 37 s.
    """
    return 9.5 + 0.028 * calls if name == "compile_model" else 0.0145 * calls


@dataclass(frozen=True)
class MachineLoad:
    """How many threads of other programs wanted a CPU when a trial began, and how many cores this process may use."""

    others: float = 0.0
    cores: int = 1

    @property
    def slowdown(self) -> float:
        """How many times as long our work takes as on a quiet machine, if threads share CPUs equally.

        >>> MachineLoad(others=3, cores=2).slowdown
        2.5
        """
        return 1.0 + self.others / self.cores

    def starting_s(self, start_s: float, workers: int) -> float:
        """Seconds to start so many workers; `start_s` is what the last ones took, perhaps on a machine as busy as now."""
        if not self.others:
            return start_s
        return max(start_s, min(start_s, QUIET_START_S) * self.slowdown * max(1.0, workers / self.cores))


QUIET = MachineLoad()


def least_relaunch_s(
    plans: Sequence[Plan],
    step_s: float,
    start_s: float,
    load: MachineLoad = QUIET,
    pipeline: Pipeline | None = None,
) -> float:
    """What one relaunch of the baseline and these plans takes at least, in seconds; `pipeline` is as in `StepBlock.of`.

    >>> least_relaunch_s([Plan.parse("channels_last")], step_s=1.0, start_s=5.0)
    19.5
    """
    steps = LEAST_WARM_UP + FEWEST_ROUNDS * StepBlock.of(step_s, pipeline).steps
    compiling_s = COMPILING_S * sum(plan.compiles for plan in plans)
    workers = 1 + len(plans)
    shipping_s = SHIPPING_S * (workers if load.others else 1)
    return load.starting_s(start_s, workers) + load.slowdown * (
        shipping_s + compiling_s + workers * steps * step_s
    )


def that_fit(
    plans: Sequence[Plan], takes_s: Callable[[Sequence[Plan]], float], budget_s: float
) -> Sequence[Plan]:
    """The plans that the budget can measure together, taken in order; if none fits, the one that takes least.

    >>> plans = [Plan.parse("channels_last"), Plan.parse("autocast")]
    >>> [str(plan) for plan in that_fit(plans, lambda some: 15.0 * len(some), budget_s=30)]
    ['channels_last']
    """
    fitting: list[Plan] = []
    for plan in plans:
        if takes_s([*fitting, plan]) <= FIRST_SHARE * budget_s:
            fitting.append(plan)
    return fitting or [min(plans, key=lambda plan: takes_s([plan]))]


def what_does_not_fit(plans: Sequence[Plan], needed_s: float, budget_s: float) -> str:
    """A sentence if one relaunch (`needed_s`) exceeds the budget, so that no answer is likely; else empty."""
    if needed_s <= budget_s:
        return ""
    compiling = ", compiling among it" if any(plan.compiles for plan in plans) else ""
    return (
        f"--budget-s {budget_s:g} is short: measuring {counted(len(plans), 'plan')} takes about "
        f"{needed_s:.0f} s here{compiling}. --budget-s {nice(2 * needed_s)} leaves time for an answer."
    )
