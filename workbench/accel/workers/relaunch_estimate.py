"""About how long one relaunch takes, before anything has run: what does not fit into a budget is said at once."""

from __future__ import annotations

from collections.abc import Sequence

from accel.measuring.took import nice
from accel.plans.plan import Plan
from accel.units import counted
from accel.workers.relaunch import FEWEST_ROUNDS, LEAST_WARM_UP
from accel.workers.step_block import StepBlock

COMPILING_S = 20.0  # what compiling a small model takes on a few cores; not known before it is done
SHIPPING_S = 0.5


def compiling_s(name: str, calls: float) -> float:
    """About how long TorchInductor compiles a model of so many calls of operations in its forward pass, or an optimizer's step.

    >>> round(compiling_s("compile_model", 563)), round(compiling_s("compile_optimizer", 2_549))
    (25, 37)

    Nested calls count. Measured on two cores: models of 58 calls 12 s, 313 calls 16 s, 563 calls 23 s, 3,832 calls 116 s;
    optimizers of 435 calls 3 s, 2,549 calls 37 s.
    """
    return 9.5 + 0.028 * calls if name == "compile_model" else 0.0145 * calls


def least_relaunch_s(plans: Sequence[Plan], step_s: float, start_s: float) -> float:
    """What one relaunch of the baseline and these plans takes at the least, in seconds.

    >>> least_relaunch_s([Plan.parse("channels_last")], step_s=1.0, start_s=5.0)
    19.5
    """
    steps = LEAST_WARM_UP + FEWEST_ROUNDS * StepBlock.of(step_s).steps
    compiling_s = COMPILING_S * sum(plan.compiles for plan in plans)
    return start_s + SHIPPING_S + compiling_s + (1 + len(plans)) * steps * step_s


def what_does_not_fit(plans: Sequence[Plan], step_s: float, start_s: float, budget_s: float) -> str:
    """A sentence for a budget in which no answer is to be expected; empty where one is."""
    needed_s = least_relaunch_s(plans, step_s, start_s)
    if needed_s <= budget_s:
        return ""
    compiling = ", compiling among it" if any(plan.compiles for plan in plans) else ""
    return (
        f"--budget-s {budget_s:g} is short: measuring {counted(len(plans), 'plan')} takes about "
        f"{needed_s:.0f} s here{compiling}. --budget-s {nice(2 * needed_s)} leaves time for an answer."
    )
