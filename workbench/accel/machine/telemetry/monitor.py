"""`accel.monitor()`: the machine while you work, live on the page, and as figures for any span of time."""

from __future__ import annotations

import sys
import time
import weakref
from typing import TYPE_CHECKING, Any

from accel.bounds import check_seconds
from accel.errors import AccelError
from accel.machine.telemetry.load_history import LoadHistory
from accel.machine.telemetry.load_in_words import LoadSnapshot
from accel.machine.telemetry.load_summary import LoadSummary, mean_and_peak
from accel.machine.telemetry.sampler import SHORTEST_S, Sampler
from accel.shown import live_panel

if TYPE_CHECKING:
    import pandas

FRESH_S = 0.2  # a summary takes no sample after one so young: it would count only a few ticks of CPU time
_shown: weakref.ref[Monitor] | None = None  # the one whose panel was made last
KEPT_MIN = 60.0  # 2 MB on a small machine, 20 MB with 256 CPUs and eight GPUs


class Monitor:
    """Samples CPUs, memory, this process with its children, and GPUs, from the moment it is made until `close`.

    >>> monitor = accel.monitor()
    >>> train(model, loader)
    >>> print(monitor.summary(last_s=60))           # means and peaks
    >>> monitor.to_dataframe()                      # every sample
    >>> monitor.summary(cell=12)                    # while In [12] ran: of a monitor made by %accel monitor
    >>> with accel.monitor() as monitor:            # of exactly these lines
    ...     train(model, loader)

    Sampling ends too when nothing refers to the monitor any more, when the panel of another one is shown, and with the process.
    """

    def __init__(
        self, *, every_s: float = 0.5, for_s: float | None = None, minutes: float = KEPT_MIN
    ) -> None:
        self._start(Sampler(every_s=every_s, for_s=for_s, minutes=minutes))

    @classmethod
    def of(cls, sampler: Sampler) -> Monitor:
        """A monitor of a sampler made elsewhere, which it starts and closes."""
        made = cls.__new__(cls)
        made._start(sampler)
        return made

    def _start(self, sampler: Sampler) -> None:
        self.sampler = sampler
        # Number of a notebook's cell → when it began and ended.
        self.cells: dict[int, tuple[float, float]] = {}
        self._panel: Any = None
        weakref.finalize(self, sampler.close)
        sampler.start()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_running(self) -> bool:
        """Whether samples are being taken."""
        return self.sampler.is_running

    @property
    def history(self) -> LoadHistory:
        """The samples of the last minutes; `history["cpu_busy"]` is an array, `history.columns` names what there is."""
        return self.sampler.history

    def pause(self) -> None:
        """Take no samples until `resume`."""
        self.sampler.pause()

    def resume(self) -> None:
        """Sample again after `pause`."""
        self.sampler.start()

    def close(self) -> None:
        """Take a last sample and end; the samples stay."""
        if self.is_running:
            self._sample_unless_fresh()
        self.sampler.close()

    def snapshot(self) -> LoadSnapshot:
        """The last sample."""
        return LoadSnapshot(self.sampler.latest, self.sampler.notes)

    def summary(
        self, last_s: float | None = None, *, cell: int | None = None,
        since_s: float | None = None, until_s: float | None = None,
    ) -> LoadSummary:  # fmt: skip
        """Means and peaks since the beginning, over the last seconds, while a cell of the notebook ran, or between two moments of
        `time.monotonic()`.

        >>> monitor.summary(last_s=30)["gpu0_busy"].mean
        0.38
        """
        check_seconds(f"summary(last_s={last_s})", last_s)
        if last_s is not None and since_s is not None:
            raise AccelError(
                "summary(last_s=…, since_s=…)", because="both say when the span begins", do="Give one."
            )
        if cell is not None:
            if any(given is not None for given in (last_s, since_s, until_s)):
                raise AccelError(
                    f"summary(cell={cell}, …)", because="the cell says when the span begins and ends", do="Give cell alone."
                )  # fmt: skip
            since_s, until_s = self._cell(cell)
        if self.is_running:
            self._sample_unless_fresh()
        latest = self.sampler.latest
        until_s = latest.time_s if until_s is None else until_s
        begin_s = until_s - last_s if last_s is not None else since_s
        begin_s = self.sampler.started_s if begin_s is None else max(begin_s, self.sampler.started_s)
        seconds, samples, quantities = mean_and_peak(self.history, begin_s, until_s)
        return LoadSummary(
            seconds, samples, len(latest.cpus), latest.memory_bytes,
            tuple(gpu.name for gpu in latest.gpus), tuple(gpu.memory_bytes for gpu in latest.gpus),
            quantities, self.sampler.cost, (*self._given_up(begin_s, until_s), *self.sampler.notes),
            latest.allowed, latest.quota_cores,
        )  # fmt: skip

    def to_dataframe(self) -> pandas.DataFrame:
        """Every sample kept, one row each; `time_s` counts as `time.monotonic()` does."""
        return self.history.to_dataframe()

    def to_dict(self) -> dict[str, Any]:
        """The last sample and the summary as plain values."""
        return {"now": self.snapshot().to_dict(), "summary": self.summary().to_dict()}

    def panel(self) -> Any:
        """The live panel of this monitor: always the same one. The monitor that was shown before it ends: a notebook holds what
        it shows for good, and each would go on sampling.

        >>> monitor.panel()
        """
        global _shown
        if self._panel is None:
            before = _shown() if _shown is not None else None
            _shown = weakref.ref(self)
            if before is not None:
                before.close()
            self._panel = live_panel(self)
        return self._panel

    def __str__(self) -> str:
        return str(self.summary())

    def _repr_mimebundle_(self, **named: Any) -> dict[str, Any]:
        """The live panel in a notebook, with the summary where no widget is shown."""
        if not _in_notebook():
            return self.summary()._repr_mimebundle_()
        # Just made, it has seen nothing yet.
        result = self.summary() if len(self.history) else self.snapshot()
        return {**self.panel()._repr_mimebundle_(**named), **result._repr_mimebundle_()}

    def _cell(self, number: int) -> tuple[float, float]:
        if number not in self.cells:
            known = ", ".join(map(str, self.cells)) or "none yet"
            raise AccelError(
                f"summary(cell={number})",
                because=f"no cell of that number ended while this monitor recorded cells (it recorded: {known})",
                do="Start %accel monitor -o load first; later cells are recorded.",
            )
        return self.cells[number]

    def _given_up(self, begin_s: float, until_s: float) -> tuple[str, ...]:
        """A sentence where the ring has lost a part of the span."""
        missing_s = min(self.history.begins_s, until_s) - begin_s if self.history.is_full else 0.0
        if missing_s < self.sampler.every_s:
            return ()
        return (
            f"The first {missing_s:.0f} s are not in it: only the last {len(self.history)} samples are kept.",
        )

    def _sample_unless_fresh(self) -> None:
        if time.monotonic() - self.sampler.latest.time_s > FRESH_S or not len(self.history):
            self.sampler.sample()


def monitor(seconds: float | None = None, *, every: float = 0.5) -> Monitor:
    """Watch this machine from now on, for so many seconds or until the monitor is closed.

    >>> accel.monitor(every=0.5).summary(last_s=60)

    Raises AccelError for times that make no sense.
    """
    check_seconds(f"monitor(every={every})", every)
    check_seconds(f"monitor(seconds={seconds})", seconds)
    if every > KEPT_MIN * 60:
        raise AccelError(
            f"monitor(every={every})",
            because=f"only the samples of the last {KEPT_MIN:.0f} minutes are kept, and one lasts longer",
            do="Use 3600 or less; 0.5 is usual.",
        )
    if every < SHORTEST_S:
        raise AccelError(
            f"monitor(every={every})",
            because="the system counts CPU time in hundredths of a second, so that shorter samples say nothing",
            do=f"Use {SHORTEST_S} or more; 0.5 is usual.",
        )
    return Monitor(every_s=every, for_s=seconds)


def _in_notebook() -> bool:
    """Whether a kernel of Jupyter would show the result; asked of IPython only where it is loaded."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")
