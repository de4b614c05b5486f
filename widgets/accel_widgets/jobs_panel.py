"""Jobs live: how far each is, its logs, and buttons to stop, cancel, remove it or bring its state home."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from accel.current import current_workbench
from accel.errors import AccelError
from accel.units import duration, size
from accel_widgets.looks_while_seen import LooksWhileSeen
from accel_widgets.main_thread import hear_while_busy, in_main_thread
from accel_widgets.static_panel import SavedPanel
from accel_widgets.theme import scripts, themed

if TYPE_CHECKING:
    from accel.distributed.jobs.job_folder import JobFolder
    from accel.distributed.jobs.jobs_here import JobRow, Jobs

GAP_S = 2.0  # a launcher's server is asked by many others
_GOES_ON = ("queued", "running")


class JobsPanel(SavedPanel, anywidget.AnyWidget):
    """Draws the jobs that are here, again and again while one goes on and the page is seen.

    >>> JobsPanel(accel.jobs())
    >>> JobsPanel()                       # a part of a panel: folded while there is none, and asked only when it is seen

    A button does what `%accel jobs` does with that word and that job.
    """

    _esm = scripts("elements.js", "seen.js", "jobs_panel.js")
    _css = themed("jobs_panel.css")

    rows = traitlets.List(traitlets.Dict()).tag(sync=True)
    line = traitlets.Unicode().tag(sync=True)
    is_error = traitlets.Bool().tag(sync=True)
    logs = traitlets.List(traitlets.List(traitlets.Unicode())).tag(sync=True)  # whose, and what was printed
    logs_of = traitlets.Unicode().tag(sync=True)
    has_fold = traitlets.Bool().tag(sync=True)  # it is a part of a panel

    def __init__(self, jobs: Jobs | None = None) -> None:
        self._jobs, self._drawing = jobs, threading.RLock()
        self._is_due = jobs is None  # there may be others than are drawn
        super().__init__(has_fold=jobs is None)
        self._live = LooksWhileSeen(self.refresh, gap_s=GAP_S, is_wanted=lambda: self._is_due or self.goes_on)
        if jobs is not None:
            self._draw(jobs)
        self.on_msg(self._told)

    @property
    def goes_on(self) -> bool:
        """Whether one of the jobs waits or runs."""
        return self._jobs is not None and any(row.state in _GOES_ON for row in self._jobs.rows)

    def refresh(self) -> None:
        """Draw what is known now; from any thread."""
        from accel.distributed.jobs.jobs_here import (
            all_jobs,
        )  # with all that begins jobs: not before it is seen

        self._is_due = False
        self._draw(all_jobs(self._jobs.done if self._jobs is not None else ""))

    def look_again(self) -> None:
        """There may be another job: look once, now if it is seen, else when it is."""
        self._is_due = True
        self._live.again()

    def close(self) -> None:
        """Take it off the page; the jobs go on."""
        self._live.close()
        super().close()

    def _draw(self, jobs: Jobs) -> None:
        with self._drawing, self.hold_sync():
            self._jobs = jobs
            self.rows = [row_traits(row) for row in jobs.rows]
            if not self.is_error:
                self.line = jobs.done or ("" if jobs.rows else str(jobs))
        hear_while_busy(self)

    def _told(self, _widget: object, message: Any, _buffers: object) -> None:
        """A page says whether it is seen, or passes on a click."""
        if not isinstance(message, dict):
            return
        if "do" in message:
            word, name = str(message["do"]), str(message.get("name", ""))
            if word == "home":  # touches the notebook's objects
                in_main_thread(lambda: self._do(word, name))
            else:
                self._do(word, name)
        if message.get("seen") is False:
            self._is_due = True  # when it is seen again
        self._live.told(message)

    def _do(self, word: str, name: str) -> None:
        from accel.distributed.jobs.jobs_here import JobLogs, Jobs, all_jobs, jobs_asked

        try:
            done = jobs_asked(word, name, _take_home, anyway=True)  # its button was pressed twice
        except AccelError as error:
            self.is_error, self.line = True, str(error)
            return
        self.is_error = False
        if isinstance(done, JobLogs):
            self.logs, self.logs_of = [list(each) for each in done.texts], name
        elif isinstance(done, Jobs):
            self._draw(done)
        else:
            self._draw(all_jobs(f"{name} is home. {done.state_line}" if hasattr(done, "state_line") else ""))
        self._live.again()

    def _stand_in(self) -> dict[str, str]:
        return self._jobs._repr_mimebundle_() if self._jobs is not None else {}


def row_traits(row: JobRow) -> dict[str, Any]:
    """What the page draws of a job: texts, and the words of its buttons."""
    return {
        "name": row.name, "state": row.words, "word": row.state, "where": row.where,
        "ranks": str(row.ranks), "for": duration(row.seconds), "step": str(row.step) if row.step else "",
        "loss": f"{row.loss:.4g}" if row.loss is not None else "", "size": size(row.size_bytes), "because": row.because,
        "can": list(row.can),
        "sure": "Sure? Its state is lost" if row.state == "done" and not row.is_home else "Sure?",
    }  # fmt: skip


def _take_home(folder: JobFolder) -> object:
    return current_workbench().ranks.take_home(folder)
