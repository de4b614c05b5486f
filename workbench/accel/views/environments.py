"""Environments as lines and as a table: what is in each, and what else can be made."""

from __future__ import annotations

from accel import html_parts
from accel.environments.asked import Environments
from accel.environments.environment import Environment
from accel.html_parts import Markup
from accel.units import size, table

HEADINGS = ("environment", "Python", "has", "made in", "added to the disk", "where")


def text(found: Environments) -> str:
    """For a terminal."""
    rows = [_cells(row) for row in found.rows]
    lines = [found.done] if found.done else []
    lines += table([HEADINGS, *rows]) if rows else [] if found.done else ["There is no environment yet."]
    return "\n".join([*lines, *_more(found)])


def html(found: Environments) -> Markup:
    """For a notebook."""
    parts = [html_parts.note(found.done)] if found.done else []
    if found.rows:
        parts.append(html_parts.table(list(HEADINGS), [_cells(row) for row in found.rows]))
    elif not found.done:
        parts.append(html_parts.note("There is no environment yet."))
    return html_parts.block(*parts, *map(html_parts.note, _more(found)))


def _cells(row: Environment) -> tuple[str, ...]:
    has = ", ".join(f"{name} {version}" for name, version in row.versions.items())
    made = (f"{row.seconds:.0f} s", size(row.added_bytes)) if row.folder else ("not made here", "")
    return (
        row.name,
        row.python_version,
        has + (f"; runs no cell: {row.why_not}" if row.why_not else ""),
        *made,
        row.python,
    )


def _more(found: Environments) -> list[str]:
    lines = [
        f"%accel env create {each.name}: {each.what}; {each.needs(found.rows)}." for each in found.can_be_made
    ]
    if len(found.rows) > 1:
        lines.append("Files that several have in common are on the disk once.")
    if not found.done:
        lines.append(
            "%accel env create torch==2.9 makes one with any version of torch; %accel env remove NAME takes one away."
        )
    for name in found.unfinished:
        lines.append(
            f"{name} is being made or removed by another process."
            if found.is_being_changed
            else f"{name} was left unfinished: %accel env remove {name} frees what it takes."
        )
    return [*lines, *([f"None can be made: {found.why_none}"] if found.why_none else [])]
