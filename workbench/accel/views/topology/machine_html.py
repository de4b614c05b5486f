"""The machine as boxes within boxes for a notebook, and its NVLinks in words."""

from __future__ import annotations

from accel.html_parts import SMALL, Markup, div
from accel.machine.topology.machine_tree import MachinePart

_BOX = "border:1px solid rgba(127,127,127,.45);border-radius:4px;padding:4px 6px;background-color:rgba(127,127,127,.05)"
_ROW = "display:flex;flex-wrap:wrap;gap:6px;align-items:flex-start"
_GPU, _CARD = "rgba(22,163,74,.3)", "rgba(124,58,237,.25)"


def boxes(machine: MachinePart) -> Markup:
    """The parts of a machine side by side, each with what lies within; every box says what it is."""
    about = div("opacity:.75;font-size:12px", machine.about) if machine.about else ""
    return Markup(f"<div>{about}{_within(machine)}</div>")


def _box(part: MachinePart) -> Markup:
    if part.device is not None:
        colour = _GPU if part.device.is_gpu else _CARD
        about = div(SMALL, part.about) if part.about else ""
        style = f"padding:3px 8px;text-align:center;border-radius:3px;background-color:{colour}"
        return div(style, part.name, about)
    label = f"{part.name}: {part.about}" if part.about else part.name
    return div(_BOX, div("font-size:12px", label), _within(part))


def _within(part: MachinePart) -> Markup:
    return div(f"{_ROW};margin-top:3px", *map(_box, part.parts)) if part.parts else Markup("")
