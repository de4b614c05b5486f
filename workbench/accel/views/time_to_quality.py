"""Time to quality: the table as text and HTML, and quality over the seconds of training as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel import html_parts, units
from accel.errors import AccelError
from accel.html_parts import OTHER_COLOUR, PALETTE, Markup
from accel.html_parts import text as escaped
from accel.measuring.time_to_quality import TimeToQuality, shown_value
from accel.measuring.training_curve import QualityRow
from accel.views.figure_look import GREY, axis, look

if TYPE_CHECKING:
    import plotly.graph_objects

_SYMBOL = {
    "sooner": "▲",
    "better": "▲",
    "later": "▼",
    "worse": "▼",
    "not reached": "▼",
    "diverged": "▼",
    "no difference": "=",
    "undecided": "?",
}
_HEADINGS = ["plan", "seconds", "steps", "epochs", "samples/s", "quality", "answer"]
COLOURS = (OTHER_COLOUR, *PALETTE)


def text(result: TimeToQuality) -> str:
    """For a terminal: what was asked, the table with the small print of each row, what a reader must know."""
    cells = [_HEADINGS, *(_cells(result, row) for row in result.rows)]
    headings, *rows = units.table(cells, numeric=range(1, len(_HEADINGS) - 1))
    lines = [result.headline, headings]
    for row, line in zip(result.rows, rows, strict=True):
        lines += [line, *(f"    {detail}" for detail in result.details(row))]
    return "\n".join([*lines, *result.fine_print])


def html(result: TimeToQuality) -> Markup:
    """For a notebook."""
    rows = []
    for row in result.rows:
        *cells, sentence = _cells(result, row)
        small = "".join(html_parts.note(detail) for detail in result.details(row))
        rows.append([*cells, Markup(f"{html_parts.text(sentence)}{small}")])
    drawn = html_parts.table([*_HEADINGS[:5], result.metric, _HEADINGS[6]], rows, numeric=(1, 2, 3, 4, 5))
    return html_parts.block(
        html_parts.heading(result.headline), drawn, *map(html_parts.note, result.fine_print)
    )


def _cells(result: TimeToQuality, row: QualityRow) -> list[str]:
    """One row of the table as text."""
    answer, target = result.answer(row.plan), result.target
    samples = row.samples(target)
    epochs = samples / result.epoch_samples if samples is not None and result.epoch_samples else None
    symbol = " " if row is result.baseline else "✗" if row.error else _SYMBOL[answer.verdict]
    return [
        f"{symbol} {row.title}", shown_value(row.seconds(target), ".3g") + _often(len(row.ends(target)), row),
        shown_value(row.steps(target), ",.0f"), shown_value(epochs, ".1f"), shown_value(row.samples_per_s, ",.0f"),
        shown_value(row.quality, ".4g") + _often(len(row.qualities), row), answer.sentence,
    ]  # fmt: skip


def _often(seeds: int, row: QualityRow) -> str:
    """Of how many seeds a figure is, where it is not all of them."""
    return f" ({seeds} of {len(row.curves)})" if seeds < len(row.curves) else ""


def figure(result: TimeToQuality) -> plotly.graph_objects.Figure:
    """One colour a plan, the baseline grey; marks distinguish the plans too."""
    import plotly.graph_objects as go

    if not any(curve.points for row in result.rows for curve in row.curves):
        raise AccelError(
            "figure()", because="nothing was evaluated", do="Look at the result's rows for the reason."
        )
    lines = [
        go.Scatter(
            x=[point.seconds for point in curve.points], y=[point.value for point in curve.points],
            name=escaped(row.plan), legendgroup=row.plan, showlegend=curve is row.curves[0], mode="lines+markers",
            line={"color": COLOURS[number % len(COLOURS)]}, marker={"symbol": number % 8, "size": 6},
            customdata=[point.steps for point in curve.points],
            hovertemplate=f"%{{y:.4g}} after %{{x:.3g}} s, %{{customdata:,}} steps (seed {curve.seed})",
        )
        for number, row in enumerate(result.rows)
        for curve in row.curves
    ]  # fmt: skip
    layout = look(result.headline, xaxis=axis("seconds of training"), yaxis=axis(escaped(result.metric)))
    drawn = go.Figure(lines, layout=layout)
    if result.target is not None:
        drawn.add_hline(
            y=result.target.value,
            line={"color": GREY, "dash": "dot"},
            annotation_text=escaped(str(result.target)),
        )
    return drawn
