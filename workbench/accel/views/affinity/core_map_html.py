"""The core map as a static picture: boxes of sockets, nodes, caches and cores, and on each CPU who is there."""

from __future__ import annotations

from accel.html_parts import (
    AMBER,
    BLUE,
    BROWN,
    GREEN,
    OLIVE,
    PINK,
    SMALL,
    TEAL,
    VIOLET,
    Markup,
    block,
    div,
    note,
    text,
)
from accel.machine.affinity.affinity import Affinity
from accel.machine.affinity.cpu_map import CoreBox, core_layout
from accel.machine.affinity.processes_here import ProcessHere
from accel.units import counted
from accel.views.affinity.core_map_text import busy_text, mask_lines, who_is_on

# Dark enough for white text: a contrast of at least 4.5 to 1.
COLOURS = (BLUE, AMBER, GREEN, PINK, VIOLET, TEAL, OLIVE, "#9f1239", "#1e40af", BROWN)
_ROW = "display:flex;flex-wrap:wrap"
LEGEND = "● busy; in a frame: idle, it ran there last. Letters are the processes below the map."


def colour_of(index: int) -> str:
    """The colour of the process with this place in the list; the letters tell apart what colours do not."""
    return COLOURS[index % len(COLOURS)]


def html(found: Affinity) -> Markup:
    """The map, its legend with each process's mask, and the problems.

    >>> html(accel.affinity())
    """
    if found.why_not:
        return block(note(found.why_not))
    shorts = {process.pid: (index, process) for index, process in enumerate(found.processes)}
    boxes = [_box(found, box, shorts) for box in core_layout(found.cpu_map)]
    problems = [div("margin-top:4px;font-weight:600", f"⚠ {line}") for line in found.notes]
    names = [_legend(index, process, found) for index, process in shorts.values()]
    masks = [note(line) for line in mask_lines(found)]
    frame = div(f"{_ROW};gap:8px", *boxes)
    legend = div(f"{_ROW};gap:4px 14px;margin-top:6px", *names)
    return block(frame, legend, note(LEGEND), *masks, *problems)


_Shorts = dict[int, "tuple[int, ProcessHere]"]


def _box(found: Affinity, box: CoreBox, shorts: _Shorts) -> Markup:
    if box.level == "core":
        cpus = [_cpu(found, cpu, shorts) for cpu in box.cpus]
        style = "display:flex;gap:2px;border-radius:5px;padding:2px;border:1px solid rgba(127,127,127,.55)"
        return div(style, *cpus, title=box.label)
    row = div(f"{_ROW};gap:4px", *(_box(found, each, shorts) for each in box.boxes))
    if not box.label:
        return row
    title = div(f"{SMALL};margin-bottom:2px", box.label)
    return div("border:1px solid rgba(127,127,127,.35);border-radius:6px;padding:4px 6px", title, row)


def _cpu(found: Affinity, cpu: int, shorts: _Shorts) -> Markup:
    places = found.on(cpu)
    chips = []
    for pid in dict.fromkeys(each.pid for each in places):
        own = [each for each in places if each.pid == pid]
        index, process = shorts[pid]
        busy = [each for each in own if each.is_busy]
        label = f"● {process.short}{busy_text(busy)}" if busy else process.short
        chips.append(_chip(label, colour_of(index), who_is_on(own), is_filled=bool(busy)))
    width = 58 if len(found.cpu_map.cpus) > 32 else 92
    style = f"min-width:{width}px;padding:2px 4px;background-color:rgba(127,127,127,.10);border-radius:3px"
    return div(style, div(SMALL, f"CPU {cpu}"), *chips)


def _chip(label: str, colour: str, title: str, *, is_filled: bool) -> Markup:
    look = f"background-color:{colour};color:#fff" if is_filled else "background-color:transparent"
    style = (
        "display:inline-block;margin:1px;padding:0 5px;font-size:11px;line-height:16px;"
        f"border:1.5px solid {colour};border-radius:8px;white-space:nowrap;{look}"
    )
    return div(style, label, title=title)


def _legend(index: int, process: ProcessHere, found: Affinity) -> Markup:
    threads = sum(each.pid == process.pid for each in found.threads)
    chip = _chip(process.short, colour_of(index), process.name, is_filled=True)
    return Markup(f"<div>{chip} {text(process.name)}, {counted(threads, 'thread')}</div>")
