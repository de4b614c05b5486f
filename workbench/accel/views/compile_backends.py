"""The backends of torch.compile as lines and as a table: which can be used here, and why the others cannot."""

from __future__ import annotations

from accel import html_parts
from accel.html_parts import Markup
from accel.techniques.compiling.compile_backends import CompileBackends


def text(backends: CompileBackends) -> str:
    """For a terminal."""
    width = max((len(row.name) for row in backends.rows), default=0)
    lines = [
        f"{'✓' if row.is_usable else '✗'} {row.name:<{width}}  {row.why_not or row.summary}"
        for row in backends.rows
    ]
    return "\n".join([*lines, _how_to_use(backends)])


def html(backends: CompileBackends) -> Markup:
    """For a notebook."""
    rows = [
        (row.name, "usable" if row.is_usable else "not here", row.why_not or row.summary)
        for row in backends.rows
    ]
    table = html_parts.table(["backend", "", "what it is, or why it cannot be used"], rows)
    return html_parts.block(table, html_parts.note(_how_to_use(backends)))


def _how_to_use(backends: CompileBackends) -> str:
    return f'For models on {backends.device}. One is used by compile_model(backend="…").'
