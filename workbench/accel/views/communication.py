"""A typical step of each rank as a picture: what was computed above, each bucket of gradients on its way below."""

from __future__ import annotations

from collections.abc import Sequence

from accel import units
from accel.distributed.communication.communication_report import CommunicationReport
from accel.distributed.communication.communication_times import StepTimes
from accel.html_parts import OTHER_COLOUR, PHASE_COLOURS, Markup, block, div, heading, note, table
from accel.units import gigabytes, size

HEADINGS = (
    "bucket",
    "parameters",
    "gradients",
    "sent",
    "ready",
    "sent at",
    "there at",
    "bus bandwidth",
    "the link alone",
)
_BUCKET_COLOUR = "#b91c1c"  # a contrast of 6.5 with its white text
_MOST_ROWS = 12
_ROOM_FOR_NAME = 0.06  # of the width
Part = tuple[str, str, float, float, str]  # label, tooltip, from, to, colour


def text(report: CommunicationReport) -> str:
    """For a terminal: the finding, a line a bucket, what the figures belong to, what to try."""
    if report.why_none:
        return report.line
    lines = units.table([HEADINGS, *_rows(report)])
    return "\n".join([report.line, *(f"  {line}" for line in lines), report.note, *report.advice])


def html(report: CommunicationReport) -> Markup:
    """The report for a notebook: divs only, for JupyterLab drops `<svg>` from notebooks that it does not trust."""
    if report.why_none:
        return block(heading(report.line))
    step = report.typical_step
    began = min(each.began_s for each in step)
    length = max(each.ended_s for each in step) - began
    lanes = [_lane(f"Rank {rank}", each, began, length) for rank, each in enumerate(step)]
    left_out = max(len(each.buckets) for on_rank in step for each in on_rank.passes) - _MOST_ROWS
    more = [note(f"{left_out} more buckets are in the table only.")] if left_out > 0 else []
    return block(
        heading(report.line), *lanes, *more,
        note(f"One step, {length * 1e3:.1f} ms wide. A bucket waits, pale, from its last gradient until it is sent."),
        table(HEADINGS, _rows(report), numeric=range(len(HEADINGS))), note(report.note), *(note(each) for each in report.advice),
    )  # fmt: skip


def _rows(report: CommunicationReport) -> list[tuple[str, ...]]:
    """One bucket each, as `HEADINGS` has it."""
    return [
        (
            str(number), str(b.parameters), size(b.gradient_bytes), size(b.sent_bytes), f"{b.ready_ms:.1f} ms",
            f"{b.began_ms:.1f} ms", f"{b.ended_ms:.1f} ms", gigabytes(b.bus_bytes_per_s),
            gigabytes(b.link_bytes_per_s) if b.link_bytes_per_s else "",
        )
        for number, b in enumerate(report.buckets, 1)
    ]  # fmt: skip


def _lane(name: str, step: StepTimes, began: float, length: float) -> Markup:
    spans = [("forward", span) for span in step.forward]
    spans += [("backward", (each.began_s, each.computed_s)) for each in step.passes]
    spans += [("optimizer", span) for span in step.optimizer]
    parts = [
        (kind, f"{kind} {1e3 * (b - a):.1f} ms", a - began, b - began, PHASE_COLOURS[kind])
        for kind, (a, b) in sorted(spans, key=lambda each: each[1])
    ]
    rows = [_row(name, parts, length)]
    for each in step.passes:
        for number, bucket in enumerate(each.buckets[:_MOST_ROWS], 1):
            sent_size = size(bucket.sent_bytes)
            tooltip = f"bucket {number}, {sent_size}: on its way for {1e3 * (bucket.ended_s - bucket.began_s):.1f} ms"
            waits = (
                f"bucket {number} is full, and not sent for {1e3 * (bucket.began_s - bucket.ready_s):.1f} ms"
            )
            ready, sent, there = (at - began for at in (bucket.ready_s, bucket.began_s, bucket.ended_s))
            way = (f"{number}: {sent_size}", tooltip, sent, there, _BUCKET_COLOUR)
            rows.append(_row("", [("", waits, ready, sent, OTHER_COLOUR), way], length))
    return Markup("".join(rows))


def _row(name: str, parts: Sequence[Part], length: float) -> Markup:
    """Parts side by side, with room where nothing is; what overlaps its neighbour is cut at it."""
    at, pieces = 0.0, list[Markup]()
    for label, tooltip, began, ended, colour in parts:
        began, ended = max(began, at), max(ended, at)
        share = (ended - began) / length
        pale = "opacity:.4;" if colour == OTHER_COLOUR else ""
        style = (
            f"width:{100 * share:.3f}%;background-color:{colour};{pale}color:#fff;overflow:hidden;white-space:nowrap;"
            "font-size:11px;line-height:15px"
        )
        shown_label = label if share > _ROOM_FOR_NAME else ""
        pieces += [div(f"width:{100 * (began - at) / length:.3f}%"), div(style, shown_label, title=tooltip)]
        at = ended
    named = div("width:60px;font-size:11px;line-height:15px", name)
    line = div("display:flex;width:100%;height:15px;background-color:rgba(127,127,127,.12)", *pieces)
    return div("display:flex;max-width:900px;margin-top:2px", named, line)
