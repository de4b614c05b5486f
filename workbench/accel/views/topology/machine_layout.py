"""Where each part of a machine is drawn: boxes within boxes, and all devices in one row, so that NVLinks can arch below it."""

from __future__ import annotations

from dataclasses import dataclass, field

from accel.machine.topology.device_links import Device
from accel.machine.topology.machine_tree import MachinePart

LABEL_HEIGHT = 0.3  # a line of a label, where the places of two devices are 1 apart
PADDING = 0.14
CHARACTER = 0.078  # at 90 pixels a device and 12 pixels a line
DEVICE = 0.42  # half of a device's width and height


@dataclass(frozen=True)
class Box:
    """A part that has others within, with the lines of its label."""

    label: tuple[str, ...]
    kind: str
    left: float
    right: float
    bottom: float
    top: float


@dataclass
class MachineLayout:
    """Boxes from the outside to the inside, and the place of each device in the row at height 0."""

    boxes: list[Box] = field(default_factory=list)
    places: dict[str, float] = field(default_factory=dict)
    devices: list[Device] = field(default_factory=list)

    @property
    def width(self) -> float:
        """From the left to the right edge."""
        return max((box.right for box in self.boxes), default=1.0)

    @property
    def top(self) -> float:
        """The upper edge; the lower one of all boxes is at `bottom`."""
        return max((box.top for box in self.boxes), default=DEVICE)

    @property
    def bottom(self) -> float:
        """The lower edge of the boxes."""
        return min((box.bottom for box in self.boxes), default=-DEVICE)


def lay_out(machine: MachinePart) -> MachineLayout:
    """Place the parts of a machine from the left to the right; the machine itself gets no box."""
    layout = MachineLayout()
    left = 0.0
    for part in machine.parts:
        left = _place(layout, part, left)[0] + PADDING
    layout.boxes.sort(key=lambda box: box.left - box.right)
    return layout


def _place(layout: MachineLayout, part: MachinePart, left: float) -> tuple[float, float, float]:
    """Place a part and all within from `left` on; gives its right edge, its top and its bottom."""
    if part.device is not None:
        layout.places[part.name] = left + DEVICE
        layout.devices.append(part.device)
        return left + 2 * DEVICE, DEVICE, -DEVICE
    label = (part.name, *((part.about,) if part.about else ()))
    right, top, bottom = left + PADDING, DEVICE if part.parts else 0.0, -DEVICE
    for within in part.parts:
        edge, its_top, its_bottom = _place(layout, within, right)
        right, top, bottom = edge + PADDING, max(top, its_top), min(bottom, its_bottom)
    right = max(right, left + 2 * PADDING + CHARACTER * max(map(len, label)))
    top, bottom = top + PADDING + LABEL_HEIGHT * len(label), bottom - PADDING
    layout.boxes.append(Box(label, part.kind, left, right, bottom, top))
    return right, top, bottom
