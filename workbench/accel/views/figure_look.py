"""What all figures have in common: no ground of their own, and grey text that reads on a light and on a dark page."""

from __future__ import annotations

from typing import Any

from accel.html_parts import text as escaped

GREY = "#7d8590"
LINE = "rgba(127,127,127,0.25)"
CLEAR = "rgba(0,0,0,0)"


def look(title: str, **own: Any) -> dict[str, Any]:
    """A plotly layout: the title, and what the figure sets itself.

    >>> go.Figure(traces, layout=look("Memory", yaxis=axis("MiB")))
    """
    common = {
        "title": {"text": escaped(title), "font": {"size": 14}},
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "font": {"color": GREY, "size": 12},
        "height": 440,
        "margin": {"t": 44, "l": 60, "r": 20, "b": 44},
        "legend": {"orientation": "h", "y": -0.2},
    }
    return {**common, **own}


def axis(title: str, **own: Any) -> dict[str, Any]:
    """An axis with its unit in the title and faint grid lines."""
    return {"title": title, "gridcolor": LINE, "zerolinecolor": LINE, **own}
