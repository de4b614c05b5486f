"""The roofline: each operation's rate over what it computes per byte, under the peaks measured on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from accel.html_parts import OTHER_COLOUR, PHASE_COLOURS
from accel.html_parts import text as escaped
from accel.profiling.phase_words import phase_words
from accel.units import milliseconds, percent
from accel.views.figure_look import GREY, axis, look

if TYPE_CHECKING:
    import plotly.graph_objects

    from accel.machine.peaks import DevicePeaks
    from accel.profiling.profile import Profile
    from accel.profiling.roofline import RooflinePoint

GIGA = 1e9
SMALLEST, LARGEST = 7, 34
SYMBOLS = {"compute": "circle", "memory": "square", "link": "diamond"}
BOUND_WORDS = {"compute": "bound by computing", "memory": "bound by moving data", "link": "bound by the link"}


def roofline_figure(profile: Profile) -> plotly.graph_objects.Figure:
    """Both axes are logarithmic; a marker's area is its share of the time. What computes nothing has no place here."""
    import plotly.graph_objects as go

    roofline = profile.roofline()
    points = [point for point in roofline.points if point.flops > 0 and point.bytes > 0]
    devices = [device for device in roofline.peaks.devices if any(p.device == device.device for p in points)]
    traces = [trace for device in devices for trace in _roofs(device, points)]
    left_out = sum(point.share for point in roofline.points) - sum(point.share for point in points)
    layout = look(
        f"Roofline; {percent(max(left_out, 0.0))} of the known time moves data and computes nothing",
        xaxis=axis("FLOP per byte moved", type="log"), yaxis=axis("GFLOP/s", type="log", exponentformat="power"),
    )  # fmt: skip
    return go.Figure([*traces, *_markers(points)], layout=layout)


def _roofs(device: DevicePeaks, points: Sequence[RooflinePoint]) -> Iterator[plotly.graph_objects.Scatter]:
    """Memory's slope up to each flat peak that operations could reach by their type."""
    own = [point for point in points if point.device == device.device]
    low, high = min(point.intensity for point in own) / 2, max(point.intensity for point in own) * 2
    rates = {point.dtype: device.flop_rate(point.dtype) for point in own}
    for dtype, rate in rates.items():
        ridge = rate / device.bytes_per_s
        xs = [min(low, ridge), ridge, max(high, 2 * ridge)]
        yield _line(f"{device.device}: {dtype} peak", xs, [xs[0] * device.bytes_per_s, rate, rate], "solid")
    levels = (
        ("from the caches", device.cache_bytes_per_s),
        ("from the cores' own caches", device.core_cache_bytes_per_s),
    )
    for name, rate in levels:
        if rate > device.bytes_per_s:
            ridge = max(rates.values()) / rate
            xs = [min(low, ridge), ridge]
            yield _line(f"{device.device}: {name}", xs, [x * rate for x in xs], "dot")


def _line(name: str, xs: list[float], ys: list[float], dash: str) -> plotly.graph_objects.Scatter:
    import plotly.graph_objects as go

    return go.Scatter(
        x=xs,
        y=[y / GIGA for y in ys],
        mode="lines",
        name=escaped(name),
        line={"color": GREY, "width": 2, "dash": dash},
        hovertemplate="%{y:.4g} GFLOP/s",
    )


def _markers(points: Sequence[RooflinePoint]) -> Iterator[plotly.graph_objects.Scatter]:
    """One trace a phase: its colour, and a word in the legend."""
    import plotly.graph_objects as go

    most = max((point.share for point in points), default=1.0)
    for phase in dict.fromkeys(point.phase for point in points):
        own = [point for point in points if point.phase == phase]
        yield go.Scatter(
            x=[point.intensity for point in own], y=[point.flops_per_s / GIGA for point in own], mode="markers",
            name=phase_words(phase), text=list(_tooltips(own)), hovertemplate="%{text}<extra></extra>",
            marker={
                "color": PHASE_COLOURS.get(phase, OTHER_COLOUR),
                "symbol": [SYMBOLS[point.bound] for point in own],
                "size": [max(SMALLEST, LARGEST * (point.share / most) ** 0.5) for point in own],
                "opacity": 0.85,
            },
        )  # fmt: skip


def _tooltips(points: Iterable[RooflinePoint]) -> Iterator[str]:
    for point in points:
        what, time = f"{point.op} {point.shapes} {point.dtype}", f"{milliseconds(point.ms)} a step"
        attained = f"{percent(point.attained)} of the attainable rate, {BOUND_WORDS[point.bound]}"
        yield "<br>".join(map(escaped, filter(None, (what, point.module, time, attained))))
