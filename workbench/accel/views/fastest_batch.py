"""Sizes of batch as text, as a table with bars, and as a picture of their speed with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.html_parts import BEST_COLOUR, OTHER_COLOUR, Markup, bar, block, heading, note, table
from accel.html_parts import text as escaped
from accel.measuring.fastest_batch import BatchRung, FastestBatch
from accel.units import size
from accel.views.figure_look import axis, look
from accel.views.ladder import explanations

if TYPE_CHECKING:
    import plotly.graph_objects


def text(result: FastestBatch) -> str:
    """For a terminal: the answer, a line a size with its small print, what to do."""
    lines = [result.answer]
    for rung in result.rungs:
        lines.append(
            f"{'▲' if rung is result.fastest else ' '} {rung.batch:>7,}  {rung.sentence}{_memory(result, rung)}"
        )
        lines += [f"{'':11}{line}" for line in _small_print(rung)]
    return "\n".join([*lines, *_last_lines(result)])


def html(result: FastestBatch) -> Markup:
    """For a notebook: bars are speeds, the longest that of the fastest."""
    rows = [
        (
            f"{'▲ ' if rung is result.fastest else ''}{rung.batch:,}",
            _bar(result, rung),
            f"{rung.sentence}{_memory(result, rung)}",
            Markup("<br>".join(map(escaped, _small_print(rung)))),
        )
        for rung in result.rungs
    ]  # fmt: skip
    notes = map(note, _last_lines(result))
    headings = ["samples a batch", "per sample", "verdict", "how it was found"]
    return block(heading(result.answer), table(headings, rows), *notes)


def figure(result: FastestBatch) -> plotly.graph_objects.Figure:
    """Samples a second against the present batch, with intervals, over the size of the batch."""
    import plotly.graph_objects as go

    measured = [(rung.batch, rung.speed) for rung in result.rungs if rung.speed]
    ratios = [speed.ratio for _, speed in measured]
    trace = go.Scatter(
        x=[batch for batch, _ in measured], y=ratios, mode="lines+markers",
        error_y={"type": "data", "array": [s.high - s.ratio for _, s in measured],
                 "arrayminus": [s.ratio - s.low for _, s in measured]},
        hovertemplate="%{x} samples: %{y:.2f}×<extra></extra>",
    )  # fmt: skip
    top = min(
        max(s.high for _, s in measured), 1.5 * max(ratios)
    )  # one wide interval leaves room for the others
    layout = look(
        "Samples a second, against the present batch", height=380,
        xaxis=axis("samples a batch", type="log", tickvals=[batch for batch, _ in measured]),
        yaxis=axis("speed-up per sample", range=[0, 1.06 * top]),
    )  # fmt: skip
    return go.Figure(trace, layout=layout)


def _bar(result: FastestBatch, rung: BatchRung) -> str:
    colour = BEST_COLOUR if rung is result.fastest else OTHER_COLOUR
    return "" if rung.speed is None else bar(rung.speed.ratio / result.highest_speed.ratio, colour=colour)


def _last_lines(result: FastestBatch) -> list[str]:
    """How long it took, what to do, and where it was measured."""
    took = str(result.took) if result.took is not None else ""
    return [line for line in (took, result.advice, result.machine_line) if line]


def _memory(result: FastestBatch, rung: BatchRung) -> str:
    peak = result.peak_bytes(rung)
    return f"; {size(peak)} at its peak" if peak else ""


def _small_print(rung: BatchRung) -> list[str]:
    return [] if rung.row is None or rung.speed is None else explanations(rung.row)[:3]
