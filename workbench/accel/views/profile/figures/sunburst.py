"""A Profile as an interactive sunburst: phase, then module, then operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.errors import AccelError
from accel.html_parts import OTHER_COLOUR, PHASE_COLOURS
from accel.html_parts import text as escaped
from accel.profiling.phase_words import NO_MODULE, phase_words
from accel.units import percent
from accel.views.figure_look import look
from accel.views.profile.section import op_base

if TYPE_CHECKING:
    import plotly.graph_objects

    from accel.profiling.profile import Profile

SMALLEST = 0.001


def sunburst(profile: Profile) -> plotly.graph_objects.Figure:
    """Area is self time; what is under a thousandth of the whole is left blank."""
    import plotly.graph_objects as go

    if not profile.rows:
        raise AccelError(
            'figure("sunburst")',
            because="no operations were profiled",
            do="The notes of the profile say why; profile again.",
        )
    sums: dict[tuple[str, ...], float] = {}
    for row in profile.rows:
        path = (row.phase, row.module or NO_MODULE, row.op)
        for depth in (1, 2, 3):
            sums[path[:depth]] = sums.get(path[:depth], 0.0) + row.self_ms
    total = sum(value for path, value in sums.items() if len(path) == 1)
    shown = {path: value for path, value in sums.items() if value >= SMALLEST * total}
    return go.Figure(
        go.Sunburst(
            ids=["\n".join(path) for path in shown],
            parents=["\n".join(path[:-1]) for path in shown],
            labels=[escaped(phase_words(path[0]) if len(path) == 1 else path[-1]) for path in shown],
            values=list(shown.values()),
            branchvalues="total",
            marker={"colors": [PHASE_COLOURS.get(path[0], OTHER_COLOUR) for path in shown]},
            customdata=[percent(value / total) for value in shown.values()],
            hovertemplate="%{label}<br>%{value:.3g} ms · %{customdata}<extra></extra>",
        ),
        layout=look(f"Self time, {op_base(profile)}", height=560, margin={"t": 44, "l": 0, "r": 0, "b": 0}),
    )
