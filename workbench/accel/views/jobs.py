"""Jobs as lines and as a table: how far each is, where, and what to type next."""

from __future__ import annotations

from accel import html_parts
from accel.distributed.jobs.jobs_here import JobRow, Jobs
from accel.html_parts import Markup
from accel.units import duration, size, table

HEADINGS = ("job", "state", "where", "ranks", "for", "step", "loss", "on disk")


def text(jobs: Jobs) -> str:
    """For a terminal."""
    lines = [jobs.done] if jobs.done else []
    lines += table([HEADINGS, *map(_cells, jobs.rows)]) if jobs.rows else [_none(jobs)]
    return "\n".join([*lines, *_next(jobs)])


def html(jobs: Jobs) -> Markup:
    """For a notebook."""
    parts = [html_parts.note(jobs.done)] if jobs.done else []
    shown = (
        html_parts.table(HEADINGS, [_cells(row) for row in jobs.rows])
        if jobs.rows
        else html_parts.note(_none(jobs))
    )
    return html_parts.block(*parts, shown, *map(html_parts.note, _next(jobs)))


def _cells(row: JobRow) -> tuple[str, ...]:
    return (
        row.name, row.words, row.where, str(row.ranks), duration(row.seconds), str(row.step) if row.step else "",
        f"{row.loss:.4g}" if row.loss is not None else "", size(row.size_bytes),
    )  # fmt: skip


def _none(jobs: Jobs) -> str:
    return f"There is no job in {' or '.join(jobs.folders)}. %%accel ddp --launcher torchrun begins one."


def _next(jobs: Jobs) -> list[str]:
    lines = [f"{row.name}: {row.because.rstrip('.')}." for row in jobs.rows if row.because]
    waiting = [row for row in jobs.rows if row.state == "done" and not row.is_home]
    return [
        *lines,
        *(f"%accel jobs home {row.name} puts what it trained into your objects." for row in waiting[:3]),
    ]
