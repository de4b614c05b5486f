"""Time to quality: the table as text, rows on one axis, and quality over the seconds of training as a picture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from accel import html_parts, units
from accel.errors import AccelError
from accel.html_parts import OTHER_COLOUR, PALETTE, Markup
from accel.html_parts import text as escaped
from accel.measuring.time_to_quality import TimeToQuality, shown_value
from accel.measuring.training_curve import QualityRow
from accel.views.figure_look import GREY, axis, look
from accel.views.ladder import rows_in_short, small_print
from accel.views.one_screen import one_screen
from accel.views.speed_rows import SpeedRow, in_brief, speed_rows

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
BARS = {
    **dict.fromkeys(("sooner", "better"), "faster"),
    **dict.fromkeys(("later", "worse", "not reached", "diverged"), "slower"),
}
_HEADINGS = ["plan", "seconds", "steps", "epochs", "samples/s", "quality", "answer"]
COLOURS = (OTHER_COLOUR, *PALETTE)


def text(result: TimeToQuality) -> str:
    """For a terminal, all of it: the table with the small print of each row, what a reader must know."""
    headings, *rows = _table(_all_cells(result))
    lines = [result.headline, result.summary, headings]
    for row, line in zip(result.rows, rows, strict=True):
        lines += [line, *(f"    {detail}" for detail in result.details(row))]
    return "\n".join(filter(None, [*lines, *result.fine_print]))


def short(result: TimeToQuality) -> str:
    """For a terminal, at most a screen: what to do, and a line a plan."""
    known = (result.machine_line, str(result.took or ""), result.unchanged_line)
    answers = rows_in_short([(_title(result, row), result.answer(row.plan).sentence) for row in result.rows])
    figures = _table([cells[:-1] for cells in _all_cells(result)])
    return one_screen([result.headline, result.summary, *answers, *figures, *known])


def html(result: TimeToQuality) -> Markup:
    """For a notebook: a bar a plan for how much sooner it is, quality and seconds next to it; all figures are folded."""
    headings = [*_HEADINGS[:5], result.metric]
    figures = html_parts.table(
        headings, [cells[:-1] for cells in _all_cells(result)[1:]], numeric=range(1, 6)
    )
    return html_parts.block(
        html_parts.heading(html_parts.breaking(result.summary or result.headline)),
        html_parts.note(result.headline) if result.summary else "",
        speed_rows([speed_row(result, row) for row in result.rows]),
        html_parts.details("Seconds, steps, epochs and samples", figures),
        *small_print(result, result.fine_print),
    )


def speed_row(result: TimeToQuality, row: QualityRow) -> SpeedRow:
    """A plan, or the baseline, as a row of the drawing: its answer with the quality and the seconds it took."""
    answer, seconds = result.answer(row.plan), row.seconds(result.target)
    ratio, brief = answer.ratio, in_brief(answer.sentence)
    ends = (ratio.low, ratio.high) if ratio is not None and ratio.is_interval else (math.nan, math.nan)
    reached = "" if row.quality is None else f"{result.metric} {row.quality:.4g}"
    reached += "" if seconds is None else f" after {seconds:.3g} s"
    without = [f"✗ NO EFFECT: {name}" for name, took, _ in row.proofs if not took]
    found = result.details(row) if brief == answer.sentence else [answer.sentence, *result.details(row)]
    return SpeedRow(
        row.title, " · ".join(filter(None, [brief, reached.strip(), *without])), _mark(result, row),
        BARS.get(answer.verdict, answer.verdict) if row.state == "done" and row is not result.baseline else "",
        None if ratio is None else (ratio.mean, *ends), found=found,
    )  # fmt: skip


def _table(cells: list[list[str]]) -> list[str]:
    return units.table(cells, numeric=range(1, len(_HEADINGS) - 1))


def _all_cells(result: TimeToQuality) -> list[list[str]]:
    return [_HEADINGS, *(_cells(result, row) for row in result.rows)]


def _title(result: TimeToQuality, row: QualityRow) -> str:
    return f"{_mark(result, row) or ' '} {row.title}"


def _mark(result: TimeToQuality, row: QualityRow) -> str:
    return "" if row is result.baseline else "✗" if row.error else _SYMBOL[result.answer(row.plan).verdict]


def _cells(result: TimeToQuality, row: QualityRow) -> list[str]:
    """One row of the table as text."""
    answer, target = result.answer(row.plan), result.target
    samples = row.samples(target)
    epochs = samples / result.epoch_samples if samples is not None and result.epoch_samples else None
    return [
        _title(result, row), shown_value(row.seconds(target), ".3g") + _often(len(row.ends(target)), row),
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
