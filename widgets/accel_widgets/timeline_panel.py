"""The profiled steps as a timeline: zoom, drag, search, click a slice for its details, add up a span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from accel_widgets.static_panel import SavedPanel
from accel_widgets.theme import scripts, themed
from accel_widgets.timeline_view import EMPTY, timeline_traits

if TYPE_CHECKING:
    from accel.profiling.profile import Profile


class TimelinePanel(SavedPanel, anywidget.AnyWidget):
    """Draws 100,000 slices and more; its data go to the page when it is opened, about 40 bytes a slice.

    >>> panel = TimelinePanel(is_open=True)
    >>> panel.show(profile)
    >>> panel.query = "conv backward"       # as if it was typed: matches are counted, the rest fades
    >>> panel.selected                      # the slice that was clicked: its number in read_timeline(profile.events)
    >>> panel.chosen_op                     # what it counts for in the table of operations, whose panel has the same
    {'op': 'aten::mm', 'phase': 'backward', 'module': 'head'}
    >>> panel.span_ms                       # from when to when it adds up, [] for no span

    `start_ms`, `duration_ms` and `self_ms` are Float64, `name`, `phase`, `module` and `line` Int32, one entry a slice.
    `generation` changes when all of them have.
    """

    _esm = scripts(
        "elements.js", "picture.js", "timeline_drawing.js", "timeline_sums.js", "timeline_panel.js"
    )
    _css = themed("timeline_panel.css")

    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    ops = traitlets.List(traitlets.Unicode()).tag(sync=True)
    steps = traitlets.Int().tag(sync=True)
    modules = traitlets.List(traitlets.Unicode()).tag(sync=True)
    phases = traitlets.List(traitlets.Dict()).tag(sync=True)
    lines = traitlets.List(traitlets.Dict()).tag(sync=True)
    rows = traitlets.List(traitlets.Dict()).tag(sync=True)
    start_ms = traitlets.Bytes().tag(sync=True)
    duration_ms = traitlets.Bytes().tag(sync=True)
    self_ms = traitlets.Bytes().tag(sync=True)
    name = traitlets.Bytes().tag(sync=True)
    phase = traitlets.Bytes().tag(sync=True)
    module = traitlets.Bytes().tag(sync=True)
    line = traitlets.Bytes().tag(sync=True)
    counted_ms = traitlets.List(traitlets.Float(), [0.0, 0.0]).tag(sync=True)
    label = traitlets.Unicode().tag(sync=True)
    summary = traitlets.List(traitlets.Unicode()).tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    generation = traitlets.Int().tag(sync=True)
    query = traitlets.Unicode().tag(sync=True)
    selected = traitlets.Int(-1).tag(sync=True)
    chosen_op = traitlets.Dict().tag(sync=True)
    span_ms = traitlets.List(traitlets.Float()).tag(sync=True)
    is_open = traitlets.Bool().tag(sync=True)

    def __init__(self, profile: Profile | None = None, **traits: Any) -> None:
        super().__init__(**traits)
        self._profile: Profile | None = None
        self._sent: Profile | None = None
        self.observe(lambda change: self._send_profile(), "is_open")
        self.show(profile)

    def show(self, profile: Profile | None) -> None:
        """Show another profile, now or when the panel is opened."""
        self._profile = profile
        self._fill({**EMPTY, "note": "", "chosen_op": {}, "span_ms": []})
        self._sent = None
        self._send_profile()

    def _stand_in(self) -> dict[str, str]:
        return self._profile._repr_mimebundle_() if self._profile else {}

    def _send_profile(self) -> None:
        if self.is_open and (self._sent is not self._profile or self._profile is None):
            self._sent = self._profile
            self._fill(timeline_traits(self._profile))

    def _fill(self, traits: dict[str, Any]) -> None:
        with self.hold_sync():
            self.selected = -1
            for name, value in traits.items():
                setattr(self, name, value)
            self.generation += 1
