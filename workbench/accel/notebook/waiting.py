"""Wait for a trial with its result filling on the page; Interrupt stops the trial and its workers."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

from accel.measuring.progress import Progress
from accel.notebook.screen import SECONDS_BETWEEN_UPDATES, Screen
from accel.workload.uninterrupted import lost_interrupts

if TYPE_CHECKING:
    from accel.workers.background_trial import BackgroundTrial

Result = TypeVar("Result")
IF_RELOADED = (
    "After a reload of the page the trial goes on, while this stands still: %accel status has its result."
)


class TrialInterrupted(KeyboardInterrupt):
    """The user stopped a trial; a cell that is interrupted fails, but not with our frames."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


def follow(trial: BackgroundTrial[Result], screen: Screen, about: str = "") -> Result:
    """Show the result while it fills, and each second what goes on; return it, or raise what made the trial fail."""
    changed = threading.Event()
    unsubscribe = trial.on_change(changed.set)
    screen.beats(lambda: progress_of(trial, about))
    try:
        screen.show(progress_of(trial, about), topic=about)
        with lost_interrupts() as raise_lost:
            while not trial.is_over:
                time.sleep(SECONDS_BETWEEN_UPDATES)
                raise_lost()
                if screen.is_due(changed.is_set()):
                    changed.clear()
                    screen.show(progress_of(trial, about), topic=about)
    except KeyboardInterrupt:
        trial.on_change(lambda: screen.show(progress_of(trial, about), topic=about))  # "stopping…", at once
        trial.stop()
        screen.end(progress_of(trial, about))
        raise TrialInterrupted("the trial was stopped; what was measured until then stands above.") from None
    finally:
        unsubscribe()
        screen.beats(None)
    screen.end(Progress(line_of(trial, about)))  # the result is the value of the cell
    return trial.wait()


def progress_of(trial: BackgroundTrial[Any], about: str = "") -> Progress:
    """A trial at this moment: what it is about, its phase, how long it has been running, and the result so far."""
    is_under_way = not trial.is_over
    return Progress(line_of(trial, about), trial.result, (IF_RELOADED,) if is_under_way else ())


def line_of(trial: BackgroundTrial[Any], about: str = "") -> str:
    """What it is about and its phase, or how it ended, with the seconds so far."""
    if trial.is_over:
        return f"{about} {trial.called} {trial.state} after {trial.seconds:.0f} s.".lstrip()
    return f"{about} {trial.goes_on}".lstrip()
