"""An export: the code in a terminal, the whole cell as a diff in a notebook."""

from __future__ import annotations

import difflib

from accel.exporting.export import Export
from accel.html_parts import Markup, block, heading, note
from accel.html_parts import text as escaped

_LINE_STYLES = {
    "+": "background-color:rgba(22,163,74,.18);font-weight:600",
    "-": "background-color:rgba(220,38,38,.16);text-decoration:line-through;text-decoration-color:rgba(220,38,38,.5)",
    " ": "",
}


def text(export: Export) -> str:
    """The code, and what could not be written in as comments below."""
    return export.code_with_notes


def html(export: Export) -> Markup:
    """The whole cell as a diff: `+` and `-` in front of changed lines, a tint behind them."""
    compared = difflib.ndiff(export.cell.splitlines(), export.code.splitlines())
    marked = Markup("").join(_line(line[0], line[2:]) for line in compared if line[0] in _LINE_STYLES)
    pre = Markup(
        '<pre style="font-family:var(--jp-code-font-family,monospace);font-size:12.5px;line-height:1.45;margin:0;'
        f'overflow-x:auto">{marked}</pre>'
    )
    missing = [
        Markup(f'<pre style="margin:2px 0 6px 0;font-size:12.5px">{escaped(one)}</pre>')
        for one in export.notes
    ]
    by_hand = [heading("Not written in"), *missing] if missing else []
    return block(
        heading(f"Your cell with {export.plan}, in plain PyTorch"), pre, *by_hand,
        note("Lines with + are new, lines with - are gone. It runs as it stands, without accel."),
    )  # fmt: skip


def _line(mark: str, line: str) -> Markup:
    return Markup(f'<span style="display:block;{_LINE_STYLES[mark]}">{mark} {escaped(line)}</span>')
