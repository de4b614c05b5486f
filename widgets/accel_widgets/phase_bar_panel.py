"""Where a step goes: one bar of phases with step time and samples per second; choosing a phase filters the op table."""

from __future__ import annotations

import anywidget
import traitlets

from accel_widgets.theme import scripts, themed


class PhaseBarPanel(anywidget.AnyWidget):
    """Draws the phases of a step; `phase` is the chosen one, "" for all.

    >>> PhaseBarPanel(headline="24.9 ms per step", phases=[{"name": "forward", "label": "forward", "share": 0.4,
    ...     "share_text": "40 %", "time_text": "9.96 ms", "colour": "#2563eb"}])
    """

    _esm = scripts("elements.js", "phase_bar_panel.js")
    _css = themed("phase_bar_panel.css")

    phases = traitlets.List(traitlets.Dict()).tag(sync=True)
    headline = traitlets.Unicode().tag(sync=True)
    facts = traitlets.List(traitlets.Unicode()).tag(sync=True)
    remarks = traitlets.List(traitlets.Unicode()).tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    phase = traitlets.Unicode().tag(sync=True)
