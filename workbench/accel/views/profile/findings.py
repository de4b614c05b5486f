"""What to do about it: each finding with its evidence, predicted gain, the line to type, and when it would be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from accel.html_parts import Markup, block, details, div, heading, note
from accel.html_parts import text as escaped
from accel.profiling.findings import Findings
from accel.units import counted
from accel.views.one_screen import COLUMNS, one_screen
from accel.views.profile.section import WIDTH, Section

if TYPE_CHECKING:
    from accel.profiling.findings import Finding

TITLE = "What to do about it"
SHORT = 9  # on a screen
NOTHING = (
    "No rule found a cost of at least 3 % of a step whose remedy would make training at least 2 % faster."
)


def text(findings: Findings) -> str:
    """What `%accel findings` prints."""
    return "\n".join([*(_lines(findings.rows) or [NOTHING]), "", findings.machine_line])


def short(findings: Findings) -> str:
    """For a terminal, at most a screen: of each what it costs, what to expect, and what to type."""
    return one_screen([*(short_lines(findings.rows, most=SHORT) or [NOTHING]), findings.machine_line])


def short_lines(findings: Sequence[Finding], *, most: int) -> list[str]:
    """The first of them in two lines each, under a title; empty when there are none."""
    lines = [TITLE] if findings else []
    for number, finding in enumerate(findings[:most], 1):
        gain = f"; predicted: {finding.prediction} as fast" if finding.prediction else ""
        lines += [f"  {number}. {finding.title}{gain}.", f"     {_to_do(finding)}"]
    more = len(findings) - most
    return [*lines, f"  {counted(more, 'more finding')}: %accel findings"] if more > 0 else lines


def _to_do(finding: Finding) -> str:
    """The line to type, where that is too long for one of a terminal with the first suggestion alone; or what to edit."""
    if not finding.suggests:
        return f"Do: {finding.remedy}"
    line = f"Try: {finding.try_line}"
    return line if len(line) + 5 <= COLUMNS else f"Try: %accel try {finding.suggests[0]}"


def html(findings: Findings) -> Markup:
    """The same for a notebook."""
    return block(*(_pieces(findings.rows) or [note(NOTHING)]), note(findings.machine_line))


def _lines(findings: Sequence[Finding]) -> list[str]:
    """The findings for a terminal, under a title; empty when there are none."""
    lines = [TITLE] if findings else []
    for number, finding in enumerate(findings, 1):
        lines += _wrapped(f"{finding.title}.", f"  {number}. ")
        for label, said in parts_of(finding):
            lines += _wrapped(f"{label}: {said}" if label else said, "     ")
    return lines


def _pieces(findings: Sequence[Finding]) -> list[Markup]:
    """The same as pieces of static HTML."""
    return [heading(TITLE), *map(_item, findings)] if findings else []


def parts_of(finding: Finding) -> Iterator[tuple[str, str]]:
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
    """What it costs, what to expect and what to do; the rest is folded."""
    parts = dict(parts_of(finding))
    what_to_do = [(label, parts.pop(label)) for label in ("Predicted", "Try", "Do") if label in parts]
    if finding.prediction is not None and finding.prediction.basis:
        what_to_do[0] = ("Predicted", f"{finding.prediction} as fast")
        parts["Predicted by"] = finding.prediction.basis
    title = div("font-weight:600;margin-top:6px", finding.title)
    folded = details("Why, and when this is wrong", *(_line(label, said) for label, said in parts.items()))
    return Markup("").join([title, div("margin-left:14px", *(_line(*part) for part in what_to_do), folded)])


def _line(label: str, said: str) -> Markup:
    shown = Markup(f"<code>{escaped(said)}</code>") if label == "Try" else said
    named = Markup(f'<span style="opacity:.75">{escaped(label)}:</span> ') if label else ""
    return div("max-width:860px", named, shown)


FINDINGS = Section(
    "findings",
    text=lambda profile: _lines(profile.findings),
    html=lambda profile: _pieces(profile.findings),
    is_open=True,
)
