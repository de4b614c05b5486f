"""What is said of a topology as a whole."""

from __future__ import annotations

from accel.machine.topology.topology import Topology


def drawing(topology: Topology) -> str:
    """The machine and its NVLinks as text; a sentence where nothing is known of it."""
    if not topology.machine.parts:
        return "CPUs and network cards are not known: there is no /sys here, where Linux tells them."
    return "\n".join(filter(None, (str(topology.machine), str(topology.nvlinks))))


def no_gpu(topology: Topology) -> str:
    """What is said where there is no GPU, with the reason."""
    return f"No GPU{f' ({topology.source})' if topology.source else ''}: there are no links to show."
