"""The machine live in a strip: a small line a core, memory, this process and its workers, GPUs; pause and close."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from accel.machine.telemetry.load_in_words import UNKNOWN, Tile, in_a_sentence, tiles
from accel.machine.telemetry.monitor import Monitor
from accel.units import percent
from accel_widgets.seen_views import SeenViews
from accel_widgets.static_panel import SavedPanel
from accel_widgets.theme import scripts, themed

if TYPE_CHECKING:
    from accel.machine.telemetry.sample import Sample

SHORTEST_UPDATE_S = 0.45  # at most two updates a second, with some room for a clock that is a little early
POINTS = 90  # of each line on the page: 45 s at the usual rate
FOLDED = "Not sampled while it is folded."


class TelemetryPanel(SavedPanel, anywidget.AnyWidget):
    """Shows a monitor while it samples. Without one it makes its own, which samples only while the strip is on a page, unfolded.

    >>> accel.monitor()                       # in a notebook: this panel, with the monitor in `.monitor`
    >>> panel = TelemetryPanel()
    >>> panel.is_open = False                 # as if it was folded: the thread of its monitor ends
    >>> panel.close()

    `tiles` say what is watched, once; `now` holds the newest sample: one whole percent a line (-1: not told), the texts of each
    tile, and all of it in a sentence. `past` are the samples before it, sent when a view appears. Nothing is sent while nobody
    sees the strip: a server keeps what a closed page does not fetch.
    """

    _esm = scripts("elements.js", "seen.js", "telemetry_panel.js")
    _css = themed("telemetry_panel.css")

    tiles = traitlets.List(traitlets.Dict()).tag(sync=True)
    now = traitlets.Dict().tag(sync=True)
    past = traitlets.List(traitlets.List()).tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    is_open = traitlets.Bool(True).tag(sync=True)
    is_paused = traitlets.Bool().tag(sync=True)
    is_over = traitlets.Bool().tag(sync=True)
    can_close = traitlets.Bool().tag(sync=True)

    def __init__(self, monitor: Monitor | None = None, **traits: Any) -> None:
        self.monitor = monitor
        self._samples_unseen = monitor is not None
        self._views, self._making = SeenViews(), threading.Lock()
        self._kept_s = -float("inf")
        self._past: list[list[int]] = []
        self._kept = 0
        self._newest: dict[str, Any] = {}
        super().__init__(can_close=monitor is not None, **traits)
        self.on_msg(self._told)
        self.observe(lambda change: self._sample_or_not(), ["is_open", "is_paused"])
        if monitor is not None:
            self._listen(monitor)
        self._sample_or_not()

    @property
    def wants_samples(self) -> bool:
        """Whether anybody would see a sample, or asked for it."""
        return (self._samples_unseen or self.is_shown) and not self.is_paused and not self.is_over

    @property
    def is_shown(self) -> bool:
        """Whether somebody sees the values."""
        return self.is_open and bool(self._views)

    def end(self) -> None:
        """Sample no more; what was sampled stays on the page and in `monitor`."""
        self.is_over = True
        if self.monitor is not None:
            self.monitor.close()

    def close(self) -> None:
        """End sampling and take the panel off the page."""
        self.end()
        super().close()

    # --- from the page ----------------------------------------------------------------------------------------------

    def _told(self, _widget: object, message: dict[str, Any], _buffers: object) -> None:
        """A view says whether it is seen, and passes on clicks; from whichever thread the message arrives in."""
        if message.get("do") == "end":
            self.end()
            return
        if self._views.told(message) and self._newest:
            with self.hold_sync():
                self.past, self.now = self._past[:-1], self._newest
        self._sample_or_not()

    # --- from the monitor -------------------------------------------------------------------------------------------

    def _sample_or_not(self) -> None:
        """Start or stop sampling; messages, clicks and the sampling thread itself may ask at once."""
        with self._making:
            if self.wants_samples and self.monitor is None:
                self.monitor = Monitor()
                self._listen(self.monitor)
        if self.wants_samples and self.monitor is not None:
            self.monitor.resume()
        elif self.monitor is not None and not self.is_over:
            self.monitor.pause()
        self._tell_note()

    def _listen(self, monitor: Monitor) -> None:
        latest = monitor.sampler.latest
        self.tiles = [_described(tile) for tile in tiles(latest)]
        self.now = self._framed(latest)
        monitor.sampler.listeners.append(self._show)
        monitor.sampler.call_at_end(self._ended)

    def _show(self, sample: Sample) -> None:
        """Called in the sampling thread: its cost is part of the sampler's."""
        if sample.time_s - self._kept_s < SHORTEST_UPDATE_S:
            return
        self._kept_s = sample.time_s
        self._newest = self._framed(sample)
        self._past = [*self._past[1 - POINTS :], self._newest["row"]]
        if self._views.turn() and self.is_open:
            with self.hold_sync():
                self.now = self._newest
                self._tell_note()
        elif not self.wants_samples:  # the page is gone, and could not say so
            self._sample_or_not()

    def _framed(self, sample: Sample) -> dict[str, Any]:
        """The values by the names of the tiles that the page has: a CPU that went off-line leaves its line empty."""
        self._kept += 1
        now = {tile.key: tile for tile in tiles(sample)}
        lines = {(tile.key, name): share for tile in now.values() for name, share in tile.lines}
        shares = [lines.get((tile["key"], name)) for tile in self.tiles for name in tile["lines"]]
        shown = [now.get(tile["key"]) for tile in self.tiles]
        return {
            "number": self._kept,  # equal values are not sent, and time would stand still on an idle machine
            "row": [-1 if share is None else round(100 * share) for share in shares],
            "texts": [[tile.value, tile.detail] if tile else [UNKNOWN, ""] for tile in shown],
            "said": in_a_sentence(sample),
        }

    def _ended(self) -> None:
        """The monitor ended: by the page, by its time, by an error or elsewhere in the program."""
        with self.hold_sync():
            self.is_over = True
            self._tell_note()

    def _tell_note(self) -> None:
        if self.monitor is None:
            self.note = "" if self.is_open else FOLDED
            return
        sampler = self.monitor.sampler
        cost = f"Sampling takes {percent(sampler.cost, 2)} of one core." if sampler.cost else ""
        ended = {True: "Ended.", False: "Paused." if self.is_paused else ""}[
            self.is_over or sampler.failure is not None
        ]
        self.note = " ".join(filter(None, [ended, cost, *sampler.notes])) if self.is_open else FOLDED

    def _stand_in(self) -> dict[str, str]:
        return self.monitor.snapshot()._repr_mimebundle_() if self.monitor is not None else {}


def _described(tile: Tile) -> dict[str, Any]:
    return {"key": tile.key, "label": tile.label, "lines": [name for name, _ in tile.lines]}
