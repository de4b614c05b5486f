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
PHASE_COLOURS = {
    "data": "#b45309", "copy": "#854d0e", "forward": "#2563eb", "loss": "#7c3aed", "backward": "#0e7490",
    "zero_grad": "#4d7c0f", "optimizer": "#15803d", "scaler": "#be185d",
}  # fmt: skip
OTHER_COLOUR = "#6b7280"


def text(value: object) -> Markup:
    """Escape a value for use in HTML, and write out what would turn a line round; `Markup` passes unchanged.

    >>> text("<b>")
    '&lt;b&gt;'
    """
    return value if isinstance(value, Markup) else escape(shown(str(value)))


def table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, numeric: Sequence[int] = ()
) -> Markup:
    """A plain table; the columns in `numeric` are right-aligned."""
    align = ["right" if i in numeric else "left" for i in range(len(headings))]
    cell = "padding:2px 10px;border-bottom:1px solid rgba(127,127,127,.25);text-align:"
    head = "".join(
        f'<th scope="col" style="{cell}{a};font-weight:600">{text(h)}</th>'
        for h, a in zip(headings, align, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f'<td style="{cell}{a}">{text(v)}</td>' for v, a in zip(row, align, strict=True))
        + "</tr>"
        for row in rows
    )
    return Markup(
        f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


def bar(share: float, *, colour: str = "#2563eb", width_px: int = 160) -> Markup:
    """A horizontal bar for a share between 0 and 1."""
    filled = 100 * min(max(share, 0.0), 1.0)
    return Markup(
        f'<div style="width:{width_px}px;background-color:rgba(127,127,127,.18)">'
        f'<div style="width:{filled:.1f}%;height:10px;background-color:{colour};opacity:.85"></div></div>'
    )


def stacked_bar(parts: Sequence[tuple[str, float]]) -> Markup:
    """One bar of labelled shares: (name, share of 1); each part names itself, by text and tooltip."""
    pieces = []
    for name, share in parts:
        colour = PHASE_COLOURS.get(name, OTHER_COLOUR)
        label = text(f"{name} {percent(share, 0)}")
        shown = label if share >= 0.07 else ""
        pieces.append(
            f'<div title="{label}" style="width:{100 * share:.2f}%;background-color:{colour};color:#fff;overflow:hidden;'
            f"white-space:nowrap;font-size:12px;line-height:22px;padding-left:{4 if shown else 0}px;"
            f'box-sizing:border-box">{shown}</div>'
        )
    return Markup(f'<div style="display:flex;width:100%;max-width:900px;height:22px">{"".join(pieces)}</div>')


def note(value: object) -> Markup:
    """A small line of text under a result: machine, spread, caveats."""
    return Markup(f'<div style="opacity:.75;font-size:12px;margin-top:4px">{text(value)}</div>')


def heading(value: object) -> Markup:
    """A heading inside a result."""
    return Markup(f'<div style="font-weight:600;margin:8px 0 3px 0">{text(value)}</div>')


def block(*parts: object) -> Markup:
    """Put parts under each other, in the page's own font."""
    return Markup(
        '<div style="font-family:var(--jp-ui-font-family,sans-serif);font-size:13px">'
        + "".join(text(p) for p in parts)
        + "</div>"
    )


def preformatted(value: object) -> Markup:
    """Text as a terminal shows it."""
    return Markup(f'<pre style="font-size:12px;overflow-x:auto">{text(value)}</pre>')


def page(title: str, *parts: object) -> Markup:
    """A whole page that needs nothing besides, dark where the reader's browser is."""
    return Markup(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f'<title>{text(title)}</title></head><body style="margin:16px">{"".join(map(text, parts))}</body></html>\n'
    )
