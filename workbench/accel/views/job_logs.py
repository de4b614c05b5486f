"""What a job's launcher and ranks printed."""

from __future__ import annotations

from accel import html_parts
from accel.distributed.jobs.jobs_here import JobLogs
from accel.html_parts import Markup


def text(logs: JobLogs) -> str:
    """For a terminal."""
    parts = [f"── {whose} ──\n{said.rstrip()}" for whose, said in logs.texts]
    return "\n".join(parts) or f"{logs.name} has printed nothing yet."


def html(logs: JobLogs) -> Markup:
    """For a notebook: folded."""
    if not logs.texts:
        return html_parts.block(html_parts.note(text(logs)))
    return html_parts.block(
        *(html_parts.details(whose, html_parts.preformatted(said.rstrip())) for whose, said in logs.texts)
    )
