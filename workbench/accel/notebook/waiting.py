"""Wait for a trial with its result filling on the page; Interrupt stops the trial and its workers."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from accel import html_parts
from accel.commands.running import run

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from accel.measuring.fastest_batch import FastestBatch
    from accel.workbench import Workbench
    from accel.workers.background_trial import BackgroundTrial

SECONDS_BETWEEN_UPDATES = 0.25
Result = TypeVar("Result")


class TrialInterrupted(KeyboardInterrupt):
    """The user stopped a trial; a cell that is interrupted fails, but not with our frames."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


def wait_with_progress(shell: InteractiveShell, workbench: Workbench, options: argparse.Namespace) -> object:
    """Start the trial of a parsed `try`; with `wait` return its result when it is over, else the Trial at once."""
    wants_to_wait, options.wait = options.wait, False
    trial: Any = run(options, workbench)
    return _watch(trial, _page(shell)) if wants_to_wait else trial


def search_with_progress(
    shell: InteractiveShell, workbench: Workbench, options: argparse.Namespace
) -> FastestBatch:
    """Find the fastest batch of a parsed `batch`, with the sizes that are measured on the page."""
    show = _page(shell)
    return workbench.fastest_batch(
        largest=options.largest,
        budget_s=options.budget_s,
        watch=lambda trial, about: _watch(trial, show, about),
    )


def _watch(trial: BackgroundTrial[Result], show: Callable[[Progress], None], about: str = "") -> Result:
    """Show the result while it fills; return it, or raise what made the trial fail."""
    started, changed = time.monotonic(), threading.Event()
    unsubscribe = trial.on_change(changed.set)
    try:
        show(Progress.of(trial, started, about))
        while not trial.is_over:
            time.sleep(SECONDS_BETWEEN_UPDATES)
            if changed.is_set():
                changed.clear()
                show(Progress.of(trial, started, about))
    except KeyboardInterrupt:
        trial.stop()
        show(Progress.of(trial, started, about))
        raise TrialInterrupted("the trial was stopped; what was measured until then stands above.") from None
    finally:
        unsubscribe()
    show(
        Progress(trial.state, time.monotonic() - started, about=about)
    )  # the result itself is the value of the cell
    return trial.wait()


def _page(shell: InteractiveShell) -> Callable[[Progress], None]:
    """What shows progress: one display that is redrawn in a notebook, one line at the start of each trial in a terminal."""
    from IPython.display import display

    is_notebook = hasattr(shell, "kernel")
    screen: list[Any] = []

    def show(progress: Progress) -> None:
        if is_notebook and screen:
            screen[0].update(progress)
        elif is_notebook:
            screen.append(display(progress, display_id=True))
        elif progress.about not in screen:
            screen.append(progress.about)
            print(progress.line)

    return show


@dataclass(frozen=True)
class Progress:
    """A trial at one moment: its state, how long it has been running, the result as far as it is known, and what it is about."""

    state: str
    seconds: float
    result: Any = None
    about: str = ""

    @classmethod
    def of(cls, trial: BackgroundTrial[Any], started: float, about: str = "") -> Progress:
        """As it is now."""
        return cls(trial.state, time.monotonic() - started, trial.result, about)

    @property
    def line(self) -> str:
        """State and duration in words."""
        ended = {"done": "Trial done", "stopped": "Trial stopped", "failed": "Trial failed"}.get(self.state)
        now = (
            f"{ended} after {self.seconds:.0f} s."
            if ended
            else f"Trial: {self.state}, {self.seconds:.0f} s. Interrupt stops it."
        )
        return f"{self.about} {now}".lstrip()

    def __str__(self) -> str:
        return f"{self.line}\n{self.result}" if self.result else self.line

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        shown = html_parts.Markup(self.result._repr_mimebundle_()["text/html"]) if self.result else ""
        return {"text/plain": str(self), "text/html": html_parts.block(html_parts.note(self.line), shown)}
