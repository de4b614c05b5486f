"""The figures of a Profile by kind. A new one is a file in `figures/` and a line in FIGURES."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accel.errors import UnknownName
from accel.profiling.figures.memory import memory_figure
from accel.profiling.figures.roofline import roofline_figure
from accel.profiling.figures.steps import steps_figure
from accel.profiling.figures.sunburst import sunburst

if TYPE_CHECKING:
    import plotly.graph_objects

    from accel.profiling.profile import Profile

FIGURES: dict[str, Callable[[Profile], Any]] = {
    "sunburst": sunburst,
    "steps": steps_figure,
    "memory": memory_figure,
    "roofline": roofline_figure,
}


def profile_figure(profile: Profile, kind: str = "sunburst") -> plotly.graph_objects.Figure:
    """Draw one; a wrong kind gives the nearest right word, missing data the option that brings it."""
    if kind not in FIGURES:
        raise UnknownName("figure", kind, FIGURES)
    return FIGURES[kind](profile)
