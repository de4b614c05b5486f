"""The operations of a step as a table: type to filter, choose a phase, sort by any column, choose a row for its slices."""

from __future__ import annotations

import anywidget
import traitlets

from accel_widgets.theme import scripts, themed

COLUMNS = [
    {"key": "op", "title": "Operation", "is_number": False},
    {"key": "phase", "title": "Phase", "is_number": False},
    {"key": "module", "title": "Module", "is_number": False},
    {"key": "self_ms", "title": "Self time", "is_number": True},
    {"key": "share", "title": "Share of step", "is_number": True},
    {"key": "calls", "title": "Calls", "is_number": True},
]


class OpTablePanel(anywidget.AnyWidget):
    """Draws rows of operations; what is typed, chosen and sorted is synced, so that a second view shows the same.

    A row has a value for each column, a `colour` (of its phase) and `texts` (column to what is shown, units included).
    `chosen_op` names the chosen row by op, phase and module, {} for none; TimelinePanel has the same, to be linked.

    >>> OpTablePanel(rows=[{"op": "aten::conv2d", "phase": "forward", "module": "net.conv1", "self_ms": 1.2,
    ...     "share": 0.1, "calls": 1, "colour": "#2563eb", "texts": {"self_ms": "1.20 ms", "share": "10 %"}}])
    """

    _esm = scripts("elements.js", "op_table_panel.js")
    _css = themed("op_table_panel.css")

    columns = traitlets.List(traitlets.Dict(), COLUMNS).tag(sync=True)
    rows = traitlets.List(traitlets.Dict()).tag(sync=True)
    filter = traitlets.Unicode().tag(sync=True)
    phase = traitlets.Unicode().tag(sync=True)
    chosen_op = traitlets.Dict().tag(sync=True)
    sort_by = traitlets.Unicode("self_ms").tag(sync=True)
    is_descending = traitlets.Bool(True).tag(sync=True)
