"""What runs in a workbench now, as the bar shows it: a trial, or ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.measuring.progress import Beat

if TYPE_CHECKING:
    from accel.workbench import Workbench


def what_runs(workbench: Workbench) -> Beat | None:
    """The beat of the trial or the ranks that run; None where nothing does.

    >>> print(what_runs(workbench))
    Trial · compiling 0:14 · compile_model · 1:05 of about 4:00
    """
    if (trial := workbench.running_trial) is not None:
        return trial.beat
    run = workbench.ranks.latest
    if run is None or run.is_over:
        return None
    return Beat("", run.phase, run.seconds, seconds=run.seconds)


def what_interrupt_does(workbench: Workbench) -> str:
    """To what runs, where no click is heard; in another cell than the one that waits for it, it stops that cell only.

    >>> what_interrupt_does(workbench)
    'Interrupt stops it.'
    """
    run, trial = workbench.ranks.latest, workbench.running_trial
    if trial is not None:
        is_awaited = trial is workbench.awaited_trial
        return "Interrupt stops it." if is_awaited else "Stop is heard when the running cell is over."
    if run is None:
        return "Interrupt stops it."
    return "Interrupt leaves it running." if run.job else "Interrupt ends it."


def does_run(workbench: Workbench) -> bool:
    """Whether anything runs: asked at each change of a trial, where a beat would cost more.

    >>> does_run(workbench)
    True
    """
    run = workbench.ranks.latest
    return workbench.running_trial is not None or (run is not None and not run.is_over)
