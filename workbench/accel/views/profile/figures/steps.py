"""Every step of the run as a stack of its phases; warm-up, profiled and unusually slow steps are marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.errors import AccelError
from accel.html_parts import OTHER_COLOUR, PHASE_COLOURS
from accel.profiling.phase_words import phase_words
from accel.views.figure_look import GREY, axis, look
from accel.views.profile.steps import WORDS, step_sign

if TYPE_CHECKING:
    import plotly.graph_objects

    from accel.profiling.profile import Profile
    from accel.profiling.step_timing import OneStep

SYMBOLS = {"w": "circle-open", "p": "triangle-up-open", "s": "x"}
BETWEEN = "Between phases"


def steps_figure(profile: Profile) -> plotly.graph_objects.Figure:
    """One bar a step, in ms; the time between phases is one colour, and a line is the reported median."""
    import plotly.graph_objects as go

    steps = profile.timing.each_step
    if not steps:
        raise AccelError(
            'figure("steps")',
            because="no training step was seen in this profile",
            do="Profile a cell that trains, or use figure().",
        )
    numbers = list(range(1, len(steps) + 1))
    bars = [
        go.Bar(
            x=numbers, y=[phases.get(name, 0.0) for phases in map(_joined, steps)], name=phase_words(name),
            marker={"color": PHASE_COLOURS.get(name, OTHER_COLOUR), "line": {"width": 0}},
            hovertemplate="%{y:.3g} ms",
        )
        for name in _names(steps)
    ]  # fmt: skip
    figure = go.Figure([*bars, *_marked(steps)], layout=_layout(profile))
    if profile.steps:
        figure.add_hline(
            y=profile.step_ms,
            line={"color": GREY, "dash": "dot"},
            annotation_text="median",
            annotation_position="top left",
        )
    return figure


def _joined(step: OneStep) -> dict[str, float]:
    """Phases in ms; the gaps are many and small, so they are one."""
    sums: dict[str, float] = {}
    for name, ms in step.phases:
        name = BETWEEN if "→" in name else name
        sums[name] = sums.get(name, 0.0) + ms
    return sums


def _names(steps: tuple[OneStep, ...]) -> list[str]:
    seen = {name for step in steps for name in _joined(step)}
    return [name for name in PHASE_COLOURS if name in seen] + sorted(seen - set(PHASE_COLOURS))


def _marked(steps: tuple[OneStep, ...]) -> list[plotly.graph_objects.Scatter]:
    import plotly.graph_objects as go

    signs = [step_sign(step) for step in steps]
    return [
        go.Scatter(
            x=[i + 1 for i, own in enumerate(signs) if own == sign],
            y=[step.ms for step, own in zip(steps, signs, strict=True) if own == sign],
            mode="markers", name=WORDS[sign], marker={"symbol": symbol, "color": GREY, "size": 9},
            hovertemplate="%{y:.4g} ms",
        )
        for sign, symbol in SYMBOLS.items()
        if sign in signs
    ]  # fmt: skip


def _layout(profile: Profile) -> dict[str, object]:
    unit = profile.timing.unit
    return look(
        f"Each {unit} and its phases",
        barmode="stack", bargap=0.1, hovermode="x unified", xaxis=axis(unit.capitalize()), yaxis=axis("ms"),
    )  # fmt: skip
