"""What the driver reports of one GPU: a row a fact."""

from __future__ import annotations

from accel.html_parts import Markup, block
from accel.html_parts import table as html_table
from accel.machine.gpu_details.details import GpuDetails
from accel.units import table


def text(details: GpuDetails) -> str:
    """For a terminal."""
    return "\n".join(table(details.facts))


def html(details: GpuDetails) -> Markup:
    """For a notebook."""
    return block(html_table(["", "This GPU"], details.facts))
