"""Wait for a trial with its result filling on the page; Interrupt stops the trial and its workers."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from accel import html_parts
from accel.notebook.screen import SECONDS_BETWEEN_UPDATES, Screen

if TYPE_CHECKING:
    from accel.workers.background_trial import BackgroundTrial

Result = TypeVar("Result")
IF_RELOADED = (
    "After a reload of the page the trial goes on, while this stands still: %accel status has its result."
)
_ENDED = {"done": "Trial done", "stopped": "Trial stopped", "failed": "Trial failed"}


class TrialInterrupted(KeyboardInterrupt):
    """The user stopped a trial; a cell that is interrupted fails, but not with our frames."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


def follow(trial: BackgroundTrial[Result], screen: Screen, about: str = "") -> Result:
    """Show the result while it fills, and each second what goes on; return it, or raise what made the trial fail."""
    changed = threading.Event()
    unsubscribe = trial.on_change(changed.set)
    try:
        screen.show(Progress.of(trial, about), topic=about)
        while not trial.is_over:
            time.sleep(SECONDS_BETWEEN_UPDATES)
            if screen.is_due(changed.is_set()):
                changed.clear()
                screen.show(Progress.of(trial, about), topic=about)
    except KeyboardInterrupt:
        trial.stop()
        screen.end(Progress.of(trial, about))
        raise TrialInterrupted("the trial was stopped; what was measured until then stands above.") from None
    finally:
        unsubscribe()
    screen.end(
        Progress(trial.state, trial.seconds, about=about)
    )  # the result itself is the value of the cell
    return trial.wait()


@dataclass(frozen=True)
class Progress:
    """A trial at one moment: its state and phase, how long it has been running, the result so far, and what it is about."""

    state: str
    seconds: float
    result: Any = None
    about: str = ""
    phase: str = ""

    @classmethod
    def of(cls, trial: BackgroundTrial[Any], about: str = "") -> Progress:
        """As it is now."""
        return cls(trial.state, trial.seconds, trial.result, about, trial.phases.now)

    @property
    def is_over(self) -> bool:
        return self.state in _ENDED

    @property
    def line(self) -> str:
        """State and duration in words."""
        ended = _ENDED.get(self.state)
        now = (
            f"{ended} after {self.seconds:.0f} s."
            if ended
            else f"Trial: {self.phase or self.state}, {self.seconds:.0f} s. Interrupt stops it."
        )
        return f"{self.about} {now}".lstrip()

    def __str__(self) -> str:
        return f"{self.line}\n{self.result}" if self.result else self.line

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        shown = html_parts.Markup(self.result._repr_mimebundle_()["text/html"]) if self.result else ""
        notes = [html_parts.note(line) for line in (self.line, "" if self.is_over else IF_RELOADED) if line]
        return {"text/plain": str(self), "text/html": html_parts.block(*notes, shown)}
