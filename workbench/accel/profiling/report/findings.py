"""What to do about it: each finding with its evidence, predicted gain, the line to type, and when it would be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from accel.html_parts import Markup, heading, text
from accel.profiling.report.section import Section

if TYPE_CHECKING:
    from accel.profiling.finding import Finding

TITLE = "What to do about it"
WIDTH = 108


def findings_text(findings: Sequence[Finding]) -> list[str]:
    """The findings for a terminal, under a title; empty when there are none.

    >>> print("\\n".join(findings_text(profile.findings)))
    """
    lines = [TITLE] if findings else []
    for number, finding in enumerate(findings, 1):
        lines += _wrapped(f"{finding.title}.", f"  {number}. ")
        for label, said in _parts(finding):
            lines += _wrapped(f"{label}: {said}" if label else said, "     ")
    return lines


def findings_html(findings: Sequence[Finding]) -> list[Markup]:
    """The same as pieces of static HTML."""
    return [heading(TITLE), *map(_item, findings)] if findings else []


def _parts(finding: Finding) -> Iterator[tuple[str, str]]:
    """(label, sentence) in reading order, without what there is not."""
    parts = [
        ("", finding.what),
        ("Evidence", "; ".join(finding.evidence)),
        ("Line", finding.place),
        ("Predicted", finding.predicted),
        ("Try", finding.try_line),
        ("Do", finding.remedy),
        ("Wrong when", finding.wrong_when),
    ]
    yield from ((label, said) for label, said in parts if said)


def _wrapped(said: str, indent: str) -> list[str]:
    """Lines of a terminal's width; a command to type is never broken."""
    if said.startswith("Try: "):
        return [indent + said]
    return wrap(said, WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent) + "  ")


def _item(finding: Finding) -> Markup:
    lines = [f'<div style="font-weight:600;margin-top:6px">{text(finding.title)}</div>']
    for label, said in _parts(finding):
        shown = f"<code>{text(said)}</code>" if label == "Try" else text(said)
        named = f'<span style="opacity:.75">{text(label)}:</span> ' if label else ""
        lines.append(f'<div style="margin-left:14px;max-width:860px">{named}{shown}</div>')
    return Markup("".join(lines))


FINDINGS = Section(
    "findings",
    text=lambda profile: findings_text(profile.findings),
    html=lambda profile: findings_html(profile.findings),
)
