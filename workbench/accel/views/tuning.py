"""A tuning as text, as rows on one axis and as a waterfall: the answer, what each part adds, the fastest of the rest."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from accel.html_parts import BEST_COLOUR, OTHER_COLOUR, Markup, block, breaking, details, heading, note
from accel.html_parts import text as escaped
from accel.measuring.comparison import Comparison
from accel.measuring.tuning import Expectation, Tuning, memory_share
from accel.plans.plan import Plan
from accel.units import counted, size
from accel.views.figure_look import axis, look
from accel.views.ladder import explanations, rows_in_short, small_print, speed_row, symbol
from accel.views.one_screen import one_screen
from accel.views.speed_rows import SpeedRow, speed_rows

if TYPE_CHECKING:
    import plotly.graph_objects

SHOWN = 8  # plans of the search: more are in .to_dataframe()
SHORT = 4  # where there is only a screen


def text(tuning: Tuning) -> str:
    """For a terminal: the answer, its parts, the fastest of the others, what to type."""
    lines = [tuning.answer, _pays_off(tuning), *_next_lines(tuning)]
    lines += [f"  {line}" if number else line for number, line in enumerate(part_lines(tuning))]
    rows = _shown_rows(tuning)
    if rows:
        width = max(len(row.title) for row in rows)
        lines += [_searched_title(tuning)]
        lines += [f"  {symbol(row)} {row.title:<{width}}  {_figures(row)}" for row in rows]
    lines += [f"Left out: {line}" for line in left_out_lines(tuning)[:4]]
    lines += _cannot_work(tuning)
    return "\n".join(filter(None, [*lines, *_last_lines(tuning)]))


def short(tuning: Tuning) -> str:
    """For a terminal, at most a screen: what to do, what each part adds, the fastest of the others."""
    parts = part_lines(tuning)
    searched = rows_in_short(
        [(f"{symbol(row)} {row.title}", _figures(row)) for row in tuning.searched[:SHORT]]
    )
    title = [_searched_title(tuning, SHORT)] if searched else []
    known = (tuning.machine_line, str(tuning.took or ""), tuning.unchanged_line)
    lines = [
        tuning.summary or tuning.answer,
        *_next_lines(tuning),
        *parts[:1],
        *(f"  {line}" for line in parts[1:]),
    ]
    return one_screen([*lines, *title, *searched, *known])


def html(tuning: Tuning) -> Markup:
    """For a notebook: what to do and what each part adds; the search and what was left out are folded."""
    searched = speed_rows([speed_row(row, answer=_figures(row)) for row in _shown_rows(tuning)])
    left_out = [*left_out_lines(tuning), *left_out_lines(tuning, is_news=False)]
    evidence = [tuning.answer, *explanations(tuning.best)] if tuning.best is not None else []
    return block(
        heading(breaking(tuning.summary or tuning.answer)),
        *map(note, filter(None, [_pays_off(tuning), *_next_lines(tuning)])),
        speed_rows(_answer_rows(tuning)),
        _folded(tuning.is_over, _searched_title(tuning).removesuffix(":"), searched) if tuning.searched else "",
        details("How the answer was found", *map(note, evidence)) if evidence else "",
        details(f"Left out: {counted(len(left_out), 'reason')}", *map(note, left_out)) if left_out else "",
        *small_print(tuning, _last_lines(tuning)),
    )  # fmt: skip


def _answer_rows(tuning: Tuning) -> list[SpeedRow]:
    """The best plan part by part; where it has but one, or there is none, what was measured anew."""
    if len(tuning.parts) < 2:
        rows = [tuning.best] if tuning.best is not None else list(tuning.confirmed)
        return [speed_row(row) for row in rows]
    return [
        SpeedRow(
            f"+ {each.part}" if number else each.part, f"{each.together}{f', {each.added} more' if number else ''}", "▲",
            "faster", (each.together.carried, each.together.low, each.together.high),
        )
        for number, each in enumerate(tuning.parts)
    ]  # fmt: skip


def figure(tuning: Tuning) -> plotly.graph_objects.Figure:
    """A waterfall: milliseconds of a step as the cell is, what each part takes off, and what is left."""
    import plotly.graph_objects as go

    base = tuning.baseline_ms
    times = [base / each.together.ratio for each in tuning.parts]
    changes = [after - before for before, after in zip([base, *times], times, strict=False)]
    trace = go.Waterfall(
        x=[tuning.against or "as it is", *(escaped(each.part) for each in tuning.parts), "with the plan"],
        y=[base, *changes, 0.0],
        measure=["absolute", *["relative"] * len(changes), "total"],
        text=[
            f"{base:.3g} ms",
            *(f"{change:+.3g} ms" for change in changes),
            f"{(times or [base])[-1]:.3g} ms",
        ],
        decreasing={"marker": {"color": BEST_COLOUR}},
        increasing={"marker": {"color": "#b45309"}},
        totals={"marker": {"color": OTHER_COLOUR}},
        connector={"line": {"color": OTHER_COLOUR, "width": 1}},
    )
    layout = look(
        "Time of a step, part by part",
        height=380,
        yaxis=axis("ms a step", rangemode="tozero"),
        showlegend=False,
    )
    return go.Figure(trace, layout=layout)


def _folded(is_over: bool, title: str, rows: Markup) -> Markup:
    """Open while it fills."""
    return details(title, rows) if is_over else Markup("").join([note(title), rows])


def _next_lines(tuning: Tuning) -> list[str]:
    lines = [tuning.keep_line, f"then {tuning.export_line}" if tuning.export_line else ""]
    here = tuning.best.here if tuning.best is not None and tuning.best.verdict == "faster" else None
    may_gain_nothing = here is not None and here.low <= 1 and not tuning.how_to_run
    more = (
        ". In this notebook it may gain nothing; in most fresh processes it does." if may_gain_nothing else ""
    )
    return [f"Next: {', '.join(filter(None, lines))}{more}"] if tuning.keep_line else []


def _pays_off(tuning: Tuning) -> str:
    """From which step on a plan that compiles is ahead; empty for others."""
    best = tuning.best
    if best is None or best.break_even_steps is None or not Plan.parse(best.plan).compiles:
        return ""
    return (
        f"Compiling takes {best.setup_s:.3g} s: it is ahead from step {best.break_even_steps:,} on, and this training has "
        f"{tuning.steps:,}."
    )


def _shown_rows(tuning: Tuning) -> list[Comparison]:
    return list(tuning.searched[:SHOWN])


def _searched_title(tuning: Tuning, most: int = SHOWN) -> str:
    more = f", the fastest {most}" if len(tuning.searched) > most else ""
    return f"Search: {counted(len(tuning.searched), 'plan')} measured{more}:"


def _figures(row: Comparison) -> str:
    """Speed, memory and quality of a plan that was searched."""
    share, of = memory_share(row), "resident " if row.peak_of == "resident" else ""
    memory = (
        f"; {of}memory {share:.2f}× ({size(row.peak_bytes[1])})" if row.peak_bytes and share == share else ""
    )
    return f"{row.shown}{memory}; {row.quality.words}"


def part_lines(tuning: Tuning) -> list[str]:
    """What each part adds to those before it, below a heading; nothing without parts."""
    if not tuning.parts:
        return []
    first, *others = tuning.parts
    return [
        "What each part adds, as this notebook runs:",
        f"{first.part}: {first.together}",
        *(f"+ {each.part}: {each.together} together, {each.added} more" for each in others),
    ]


def left_out_lines(tuning: Tuning, *, is_news: bool = True) -> list[str]:
    """Plans by the reason that they share; of those that the search found out, or of the others."""
    plans = defaultdict(list)
    for each in tuning.left_out:
        if each.is_news == is_news:
            plans[each.why].append(each.plan)
    return [f"{', '.join(names)}: {why}" for why, names in plans.items()]


def _cannot_work(tuning: Tuning) -> list[str]:
    """How many were not tried: the reasons of each take more than a screen."""
    names = {each.plan for each in tuning.left_out if not each.is_news}
    return (
        [f"Not tried: {counted(len(names), 'acceleration')}; .left_out has the reason of each."]
        if names
        else []
    )


def _last_lines(tuning: Tuning) -> list[str]:
    took = str(tuning.took) if tuning.took is not None else ""
    front = [
        f"{row.plan} ({_figures(row)}{'' if row.headline else ', in the search'})" for row in tuning.front
    ]
    against = (
        f"The cell as it is ran out of memory next to this notebook: all speed-ups are over {tuning.against}."
        if tuning.against
        else ""
    )
    fronts = f"Best for speed and memory: {'; '.join(front)}." if len(front) > 1 else ""
    how = tuning.quality.how if tuning.quality is not None else ""
    lines = [
        against, fronts, how, _expected(tuning.expectations), took, *tuning.notes, tuning.allocator_line, tuning.unchanged_line,
        tuning.machine_line,
    ]  # fmt: skip
    return [line for line in lines if line]


def _expected(expectations: tuple[Expectation, ...]) -> str:
    """How good what the search began with was."""
    measured = [each for each in expectations if each.measured is not None]
    if not measured:
        return ""
    inside = sum(bool(each.is_inside) for each in measured)
    each = "; ".join(f"{e.part} {e.expected.ratio:.2f}× by {e.source}, {e.measured.ratio:.2f}× measured"
                     for e in measured if e.measured is not None)  # fmt: skip
    return f"Expected before: {inside} of {len(measured)} as expected ({each})."
