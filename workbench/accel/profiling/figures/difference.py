"""The operations that changed most between two profiles, as bars before and after."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from accel.errors import AccelError
from accel.profiling.figures.look import axis, look
from accel.profiling.phase_words import NO_MODULE, phase_words

if TYPE_CHECKING:
    import plotly.graph_objects

    from accel.profiling.profile_diff import ProfileDiff

SHOWN = 15
BEFORE, AFTER = "#6b7280", "#2563eb"


def difference_figure(diff: ProfileDiff) -> plotly.graph_objects.Figure:
    """Two bars an operation, per step; the greatest difference on top. The second is hatched, not only of another colour."""
    import plotly.graph_objects as go

    shown = [change for change in diff.changes if change.difference_ms][:SHOWN][::-1]
    if not shown:
        raise AccelError(
            "diff.figure()",
            because="no operation differs between the two profiles",
            do="Their notes say whether operations were profiled at all.",
        )
    labels = [
        escape(f"{c.op} · {phase_words(c.phase)} · {c.module or NO_MODULE} ({c.change})") for c in shown
    ]
    bars = [
        go.Bar(
            y=labels, x=values, name=name, orientation="h",
            marker={"color": colour, "pattern": {"shape": pattern, "size": 5}}, hovertemplate="%{x:.3g} ms",
        )
        for name, values, colour, pattern in (
            ("after", [c.after_ms for c in shown], AFTER, "/"),
            ("before", [c.before_ms for c in shown], BEFORE, ""),
        )
    ]  # fmt: skip
    layout = look(
        "Self time per step, before and after", barmode="group", xaxis=axis("ms"), height=120 + 38 * len(shown),
        yaxis={"automargin": True}, legend={"traceorder": "reversed"},
    )  # fmt: skip
    return go.Figure(bars, layout=layout)
