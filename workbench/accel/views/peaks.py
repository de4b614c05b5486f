"""How Peaks look: the devices, copies and all-reduce, in lines that fit, or as tables."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap

from accel import html_parts
from accel.machine.peaks.all_reduces import AllReduces
from accel.machine.peaks.machine_peaks import WIDTH, Peaks

BUSY = "The machine was busy: these rates are underestimates, and are measured again the next time."
NO_LINKS = "All-reduce, and copies between GPUs: not measured yet, %accel peaks --links does."


def text(peaks: Peaks) -> str:
    """Devices, copies and what ranks reach."""
    return "\n".join([*of_devices(peaks), *_of_ranks(peaks)])


def html(peaks: Peaks) -> str:
    """The same as tables."""
    rows = [(device.title, word, rates) for device in peaks.devices for word, rates in device.rows()]
    parts: list[object] = [
        html_parts.heading(_title(peaks)),
        html_parts.table(["Device", "", "At most"], rows),
    ]
    for title, measured in (("Copies", peaks.copies), ("All-reduce", peaks.all_reduces or AllReduces())):
        if lines := [line.strip() for line in measured.lines()]:
            parts.append(html_parts.table([title], [(line,) for line in lines]))
    was_busy = peaks.was_busy or (peaks.all_reduces is not None and peaks.all_reduces.was_busy)
    remarks = (*peaks.notes, NO_LINKS * (peaks.all_reduces is None), BUSY * was_busy)
    return html_parts.block(*parts, *map(html_parts.note, filter(None, remarks)))


def of_devices(peaks: Peaks) -> list[str]:
    """The lines about devices and copies, without those about ranks: what a profile of one process is held against."""
    lines = [_title(peaks)]
    lines += [f"  {line}" for device in peaks.devices for line in str(device).splitlines()]
    lines += _below("Copies", peaks.copies.lines())
    remarks = (line for note in peaks.notes for line in _wrapped(note))
    return [*lines, *remarks, *_wrapped(BUSY * peaks.was_busy)]


def _of_ranks(peaks: Peaks) -> list[str]:
    if peaks.all_reduces is None:
        return _wrapped(NO_LINKS)
    is_said_above = peaks.was_busy or not peaks.all_reduces.was_busy
    return [*_below("All-reduce", peaks.all_reduces.lines()), *_wrapped(BUSY * (not is_said_above))]


def _title(peaks: Peaks) -> str:
    since = f" (the highest since {_minute(peaks.since)})" if peaks.since else ""
    return f"Peaks measured on this machine, {_minute(peaks.measured)}{since}, torch {peaks.torch}"


def _minute(moment: str) -> str:
    """A date and time, as it is shown."""
    return moment.replace("T", " ")[:16]


def _below(title: str, texts: Iterable[str]) -> list[str]:
    """Lines below a title, which is left out with them."""
    lines = []
    for line in texts:
        indent = " " * (4 + len(line) - len(line.lstrip()))
        lines += wrap(line.strip(), WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")
    return [f"  {title}", *lines] if lines else []


def _wrapped(remark: str) -> list[str]:
    return wrap(remark, WIDTH, initial_indent="  ", subsequent_indent="    ")
