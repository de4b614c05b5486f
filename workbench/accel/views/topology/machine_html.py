"""The machine as boxes within boxes for a notebook, and its NVLinks in words."""

from __future__ import annotations

from accel.html_parts import Markup, text
from accel.machine.topology.machine_tree import MachinePart

_BOX = "border:1px solid rgba(127,127,127,.45);border-radius:4px;padding:4px 6px;background-color:rgba(127,127,127,.05)"
_ROW = "display:flex;flex-wrap:wrap;gap:6px;align-items:flex-start"
_GPU, _CARD = "rgba(22,163,74,.3)", "rgba(124,58,237,.25)"


def boxes(machine: MachinePart) -> Markup:
    """The parts of a machine beside each other, each with what lies within; every box says what it is."""
    about = f'<div style="opacity:.75;font-size:12px">{text(machine.about)}</div>' if machine.about else ""
    return Markup(f"<div>{about}{_within(machine)}</div>")


def _box(part: MachinePart) -> Markup:
    if part.device is not None:
        colour = _GPU if part.device.is_gpu else _CARD
        about = f'<div style="opacity:.75;font-size:11px">{text(part.about)}</div>' if part.about else ""
        style = f"padding:3px 8px;text-align:center;border-radius:3px;background-color:{colour}"
        return Markup(f'<div style="{style}">{text(part.name)}{about}</div>')
    label = text(f"{part.name}: {part.about}" if part.about else part.name)
    return Markup(f'<div style="{_BOX}"><div style="font-size:12px">{label}</div>{_within(part)}</div>')


def _within(part: MachinePart) -> Markup:
    inside = "".join(_box(each) for each in part.parts)
    return Markup(f'<div style="{_ROW};margin-top:3px">{inside}</div>' if inside else "")
