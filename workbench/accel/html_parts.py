"""Self-contained pieces of HTML for results: tables, bars and notes with inline styles only.

JupyterLab drops `<style>` and `<svg>` from untrusted notebooks, so everything here is a table or a div with a style
attribute. Colours are half transparent, so that they read on a light and on a dark page alike, and no meaning is carried
by colour alone. Every text is escaped here: callers pass plain text, never markup, unless it came from this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup as Markup
from markupsafe import escape

from accel.shown_text import shown
from accel.units import percent

# Dark enough for white text: a contrast of at least 4.5 to 1.
BLUE, GREEN, AMBER, VIOLET = "#2563eb", "#15803d", "#b45309", "#7c3aed"
TEAL, PINK, OLIVE, BROWN = "#0e7490", "#be185d", "#4d7c0f", "#854d0e"
PALETTE = (BLUE, GREEN, AMBER, VIOLET, TEAL, PINK, OLIVE, BROWN)
OTHER_COLOUR = "#6b7280"  # of what has none of its own, and of what others are compared with
BEST_COLOUR = "#16a34a"
SMALL = "opacity:.75;font-size:11px"
PHASE_COLOURS = {
    "data": AMBER, "copy": BROWN, "forward": BLUE, "loss": VIOLET, "backward": TEAL, "recompute": BLUE,
    "zero_grad": OLIVE, "optimizer": GREEN, "closure": OTHER_COLOUR, "scaler": PINK,
}  # fmt: skip


def text(value: object) -> Markup:
    """Escape a value for use in HTML, and write out what would turn a line round; `Markup` passes unchanged.

    >>> text("<b>")
    Markup('&lt;b&gt;')
    """
    return value if isinstance(value, Markup) else escape(shown(str(value)))


def markdown(value: str) -> Markup:
    """Markdown as HTML; HTML in it is escaped like any other text.

    >>> print(markdown("`x` < **y**"))
    <p><code>x</code> &lt; <strong>y</strong></p>
    """
    import mistune

    return Markup(str(mistune.create_markdown(escape=True)(shown(value))).strip())


def table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, numeric: Sequence[int] = ()
) -> Markup:
    """A plain table; the columns in `numeric` are right-aligned. Over a column without a heading stands an empty cell."""
    align = ["right" if i in numeric else "left" for i in range(len(headings))]
    cell = "padding:2px 10px;border-bottom:1px solid rgba(127,127,127,.25);vertical-align:top;text-align:"
    head = "".join(
        f'<th scope="col" style="{cell}{a};font-weight:600">{text(h)}</th>'
        if h
        else f'<td style="{cell}{a}"></td>'
        for h, a in zip(headings, align, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f'<td style="{cell}{a}">{text(v)}</td>' for v, a in zip(row, align, strict=True))
        + "</tr>"
        for row in rows
    )
    return Markup(
        f'<table style="border-collapse:collapse;margin:0"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


def bar(share: float, *, colour: str = BLUE, width_px: int = 160) -> Markup:
    """A horizontal bar for a share between 0 and 1."""
    filled = 100 * min(max(share, 0.0), 1.0)
    inner = div(f"width:{filled:.1f}%;height:10px;background-color:{colour};opacity:.85")
    return div(f"width:{width_px}px;background-color:rgba(127,127,127,.18)", inner)


def stacked_bar(parts: Sequence[tuple[str, float]]) -> Markup:
    """One bar of labelled shares: (name, share of 1); each part names itself, by text and tooltip."""
    pieces = []
    for name, share in parts:
        colour = PHASE_COLOURS.get(name, OTHER_COLOUR)
        label = f"{name} {percent(share, 0)}"
        shown = label if share >= 0.07 else ""
        style = (
            f"width:{100 * share:.2f}%;background-color:{colour};color:#fff;overflow:hidden;white-space:nowrap;"
            f"text-overflow:ellipsis;font-size:12px;line-height:22px;padding-left:{4 if shown else 0}px;box-sizing:border-box"
        )
        pieces.append(div(style, shown, title=label))
    return div("display:flex;width:100%;max-width:900px;height:22px", *pieces)


def div(style: str, *parts: object, title: str = "") -> Markup:
    """A box in a style of its own; `title` is shown under the pointer.

    >>> print(div(SMALL, "<b>"))
    <div style="opacity:.75;font-size:11px">&lt;b&gt;</div>
    """
    about = f'title="{text(title)}" ' if title else ""
    return Markup(f'<div {about}style="{style}">{"".join(map(text, parts))}</div>')


def breaking(plans: str) -> Markup:
    """Text whose long plans may go on in the next line after each `+`.

    >>> print(breaking("channels_last+autocast"))
    channels_last+<wbr>autocast
    """
    return Markup("+<wbr>").join(map(text, plans.split("+")))


def note(value: object) -> Markup:
    """A small line of text under a result: machine, spread, caveats."""
    return div("opacity:.75;font-size:12px;margin-top:4px", value)


def heading(value: object) -> Markup:
    """A heading inside a result."""
    return div("font-weight:600;margin:8px 0 3px 0", value)


def block(*parts: object) -> Markup:
    """Put parts under each other, in the page's own font."""
    return div("font-family:var(--jp-ui-font-family,sans-serif);font-size:13px", *parts)


def columns(bars: Iterable[Markup]) -> Markup:
    """Upright bars in a row, on one ground."""
    return div("display:flex;align-items:flex-end;max-width:900px", *bars)


def details(summary: str, *parts: object) -> Markup:
    """A part that is folded away until it is clicked."""
    inside = "".join(map(text, parts))
    return Markup(f'<details><summary style="cursor:pointer">{text(summary)}</summary>{inside}</details>')


def preformatted(value: object) -> Markup:
    """Text as a terminal shows it."""
    return Markup(f'<pre style="font-size:12px;overflow-x:auto">{text(value)}</pre>')


def page(title: str, *parts: object) -> Markup:
    """A whole page that needs nothing besides, dark where the reader's browser is."""
    body = "margin:16px;color:CanvasText;background-color:Canvas"
    return Markup(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f'<title>{text(title)}</title></head><body style="{body}">{"".join(map(text, parts))}</body></html>\n'
    )
