"""Functions that search by measuring: for the best plan, and for the fastest batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel.measuring.fastest_batch import FastestBatch
    from accel.measuring.tuning import Tuning
    from accel.workers.tune_trial import TuneTrial


def tune(
    *, budget_s: float = 120.0, keep_quality: float | None = None, include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (), changes_training: bool = False, steps: int | None = None, seed: int = 0,
    fit: int | str | None = None, wait: bool = True,
) -> Tuning | TuneTrial:  # fmt: skip
    """Search for the plan that trains your cell fastest without making it worse, by measuring many on copies.

    All accelerations that can work here run against one baseline; the good ones are put together, and the winner is measured
    again in fresh processes, as your notebook runs. Only that second measurement is the answer. Nothing of yours changes.

    Args:
        budget_s: Wall time of all of it in seconds.
        keep_quality: The share by which losses may be higher on average, such as 0.005. None: they follow the baseline's step by
            step, as a trial asks. Of a plan that changes training: the share by which the quality may be worse.
        include: Only these accelerations, or these settings of them. Empty: all that can work here.
        exclude: Not these accelerations.
        changes_training: Also what changes the training, such as larger batches and pruning. It is compared per sample, then
            by time to equal quality on held-out data, which takes half of the budget.
        steps: Optimizer steps of your real training, over which compiling has to pay off. None: those of the profiled run.
        seed: Of the search's random draws.
        fit: The memory that the plan may take at its peak, in bytes or as "2GiB". Where the cell as it is takes more, the answer
            is the fastest plan that fits, also where it costs time.
        wait: Whether to wait for the result.

    Returns:
        The best plan with what each part adds, all plans measured, and what was left out and why. With `wait=False` the
        search that is running.

    Raises:
        AccelError: Nothing was profiled yet, a trial goes on, nothing can be tried here, or an option makes no sense.

    Examples:
        >>> tuning = accel.tune(budget_s=60)
        >>> print(tuning.answer, tuning.keep_line)

    Method: Thompson sampling over a linear model of gains with interactions, then a fresh confirmation (decision 22).
    """
    from accel.commands.line.ticking import wait_ticking
    from accel.current import current_workbench

    return current_workbench().tune(
        budget_s=budget_s, keep_quality=keep_quality, include=include, exclude=exclude, changes_training=changes_training,
        steps=steps, seed=seed, fit=fit, wait=wait, watch=wait_ticking,
    )  # fmt: skip


def fastest_batch(*, largest: int | None = None, budget_s: float | None = None) -> FastestBatch:
    """Find the batch that trains the most samples a second, by measuring larger and smaller ones on copies.

    It looks for the fastest batch, not for the largest that fits. Sizes that are statistically tied count as equal, and the
    smallest is taken. A larger batch changes training: compare the time to equal quality before you keep it.

    Args:
        largest: Try no batch of more samples than this. None: 64 times yours.
        budget_s: Wall time of the search in seconds. None: 360 s.

    Returns:
        Each size with its speed per sample and its peak memory, the fastest, and the largest that is as fast.

    Raises:
        AccelError: Nothing was profiled yet, the workload takes its batches from no DataLoader, or an option makes no sense.

    Examples:
        >>> print(accel.fastest_batch(largest=512, budget_s=60))
    """
    from accel.commands.line.ticking import wait_ticking
    from accel.current import current_workbench

    return current_workbench().fastest_batch(largest=largest, budget_s=budget_s, watch=wait_ticking)
