"""A report that was written, in a sentence."""

from __future__ import annotations

from accel.html_parts import Markup, block
from accel.units import size
from accel.workbench.report_file import ReportFile


def text(report: ReportFile) -> str:
    """For a terminal."""
    return (
        f"Written to {report.path} ({size(report.file_bytes)}): {', '.join(report.parts)}. "
        "Any browser opens it, on any machine; nothing is loaded from elsewhere."
    )


def html(report: ReportFile) -> Markup:
    """For a notebook."""
    return block(text(report))
