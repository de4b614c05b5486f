"""What was predicted and what was then measured, as lines and as tables: by finding, and one by one."""

from __future__ import annotations

from accel.history.past_predictions import PastPredictions, PredictedAndMeasured
from accel.html_parts import Markup, block, heading, note, table
from accel.units import percent
from accel.views.past_trials import OFF

NONE_YET = (
    "Nothing was predicted yet: %%accel profile finds what costs time and says what mending it would gain."
)
SHOWN = 40


def text(past: PastPredictions) -> str:
    """For a terminal: how good they have been, by finding and one by one."""
    if not past.rows:
        return "\n".join([NONE_YET if past.file else OFF, *_small_print(past)])
    lines = [past.sentence, ""]
    for kind, count, tried, inside, error in past.by_kind:
        good = f"{percent(inside, 0)} inside, median error {percent(error, 0)}" if tried else ""
        lines.append(f"  {kind:<24} {count:>4} predicted {tried:>4} measured  {good}".rstrip())
    width = max(len(row.cells[1]) for row in _shown(past))
    lines += ["", *(f"  {row.line(width)}" for row in _shown(past)), *_small_print(past)]
    return "\n".join(lines)


def html(past: PastPredictions) -> Markup:
    """For a notebook."""
    if not past.rows:
        return block(*map(note, text(past).splitlines()))
    kinds = [
        (
            kind,
            count,
            tried,
            percent(inside, 0) if tried else "–",
            percent(error, 0) if tried else "–",
        )
        for kind, count, tried, inside, error in past.by_kind
    ]
    parts = [
        heading(past.sentence),
        table(["Finding", "Predicted", "Measured", "Inside", "Median error"], kinds, numeric=range(1, 5)),
        heading("Predicted and measured"),
        table(["Finding", "Plan", "Predicted", "Measured", ""], [row.cells for row in _shown(past)]),
    ]
    return block(*parts, *map(note, _small_print(past)))


def _shown(past: PastPredictions) -> tuple[PredictedAndMeasured, ...]:
    """Measured ones first: those without an answer teach nothing yet."""
    return tuple(sorted(past.rows, key=lambda row: (not row.is_scored, not row.is_measured))[:SHOWN])


def _small_print(past: PastPredictions) -> list[str]:
    left_out = len(past.rows) - SHOWN
    more = [f"{left_out} more are in .to_dataframe()."] if left_out > 0 else []
    return [
        *more,
        *([f"History: {past.file}"] if past.file else []),
        *([past.problem] if past.problem else []),
    ]
