"""Topology: which devices of a machine are joined by which link, and what follows from that."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from accel import html_parts
from accel.errors import AccelError
from accel.machine.cpu_lists import cpu_list
from accel.machine.topology.device_links import DeviceLinks
from accel.machine.topology.gpu_choice import GpuChoice, best_gpus, can_choose
from accel.machine.topology.links import WAYS, Link
from accel.machine.topology.machine_tree import MachinePart, machine_tree
from accel.machine.topology.nvlinks import NvLinks, nvlinks_of
from accel.machine.topology.writing_matrix import written
from accel.shown import Drawn, view_of

if TYPE_CHECKING:
    import plotly.graph_objects as go

RENUMBERING = (
    "Set both variables before CUDA is first used: without CUDA_DEVICE_ORDER=PCI_BUS_ID it counts the fastest GPU first, and its "
    "numbers need not be those of nvidia-smi."
)


@dataclass(frozen=True)
class Topology(DeviceLinks, Drawn):
    """Which devices of a machine are joined by which link: prints, shows as a table, and chooses GPUs.

    Examples:
        >>> topology = accel.topology(text='''
        ...       GPU0  GPU1  GPU2
        ... GPU0   X    SYS   NV2
        ... GPU1  SYS    X    SYS
        ... GPU2  NV2   SYS    X''')
        >>> topology.link("GPU0", "GPU2")
        Link(label='NV2')
        >>> print(topology.best_gpus(2))
    """

    def best_gpus(self, count: int) -> GpuChoice:
        """The GPUs to use together: those whose farthest two are nearest; among equals, those joined best in sum.

        Args:
            count: How many.

        Returns:
            The choice: `.visible` and `.as_env` for the environment, and the reason in words.

        Raises:
            AccelError: There are not so many.

        Examples:
            >>> topology.best_gpus(2).visible
            '0,2'
        """
        return best_gpus(self, count)

    def figure(self, kind: Literal["graph", "matrix"] = "graph") -> go.Figure:
        """A plotly figure: the machine with its nodes, switches and NVLinks, or the matrix in colours."""
        return view_of(self).figure(self, kind)

    @property
    def matrix(self) -> str:
        """The matrix as `nvidia-smi topo -m` prints it, which `read_matrix` reads again."""
        return written(self)

    @property
    def legend(self) -> list[str]:
        """What the labels in use mean, with what such a link carries; nearest first."""
        rates: dict[Link, list[float]] = {}
        for first, second, link in self.pairs(self.devices):
            rates.setdefault(link, []).append(self.gb_per_s(first, second))
        lines = [
            f"{link.label}: {_meaning(link)}; about {_range(rates[link])} GB/s in one direction"
            for link in sorted(rates, reverse=True)
        ]
        return [*lines, self.assumed] if self.assumed else lines

    @property
    def advice(self) -> list[str]:
        """What follows for two, four … GPUs, which two lie farthest apart, and which GPUs are missing."""
        gpus = len(self.usable_gpus)
        counts = [count for count in (2, 4, 8) if count < gpus or count == gpus == 2]
        lines = [str(self.best_gpus(count)) for count in counts if can_choose(count, gpus)]
        if len(self.gpus) > 2:
            nearest = max(link for _, _, link in self.pairs())
            first, second, link = min(self.pairs(), key=lambda pair: pair[2])
            others = sum(other == link for *_, other in self.pairs()) - 1
            so_too = f", as {others} other pair{'s are' if others > 1 else ' is'}" if others else ""
            lines.append(
                f"Farthest apart: {first.name} and {second.name}, by way of {link}{so_too}."
                if link < nearest
                else f"Every two GPUs are joined alike: {link}."
            )
        odd = (
            (a, b)
            for a, b, link in self.pairs()
            if link.label == "SYS" and a.near_nodes == b.near_nodes != ()
        )
        lines += [
            f"SYS stands between {a.name} and {b.name}, though both are at NUMA node {cpu_list(a.near_nodes)}."
            for a, b in itertools.islice(odd, 1)
        ]
        lines += [f"{note}." for note in self.notes]
        if gpus < len(self.gpus):
            names = ", ".join(gpu.name for gpu in self.usable_gpus)
            lines.append(f"The best are chosen among {names}." if gpus else "So no GPU can be chosen.")
        return [*lines, RENUMBERING] if gpus > 1 else lines

    @property
    def machine(self) -> MachinePart:
        """The machine as parts within parts: sockets, NUMA nodes with CPUs, host bridges, switches, GPUs, network cards.

        Examples:
            >>> print(topology.machine)
        """
        return machine_tree(self)

    @property
    def nvlinks(self) -> NvLinks:
        """The pairs of GPUs that NVLinks join, and the groups behind NVSwitch."""
        return nvlinks_of(self)

    def to_dict(self) -> dict[str, Any]:
        """Devices, labels by pair, estimates, and the best choices, as plain values."""
        gpus = len(self.usable_gpus)
        return {
            "source": self.source,
            "devices": [device.to_dict() for device in self.devices],
            "other_cards": [card.to_dict() for card in self.other_cards],
            "machine": self.machine.to_dict(),
            "nodes": [node.to_dict() for node in self.nodes],
            "labels": [[link.label for link in row] for row in self.links],
            "gb_per_s": {
                f"{a.name}-{b.name}": self.gb_per_s(a, b) for a, b, _ in self.pairs(self.devices)
            },
            "assumed": self.assumed,
            "visible": None if self.visible is None else list(self.visible),
            "notes": list(self.notes),
            "best": {
                str(count): self.best_gpus(count).to_dict() for count in range(2, gpus + 1) if can_choose(count, gpus)
            },
        }  # fmt: skip

    def save(self, path: str | Path) -> Path:
        """Write it as a page of its own, which a browser shows without anything else; a file of that name is replaced.

        Args:
            path: The file.

        Returns:
            The path.

        Raises:
            AccelError: The file cannot be written.

        Examples:
            >>> topology.save("topology.html")
        """
        path = Path(path).expanduser()
        page = html_parts.page("Topology", view_of(self).html(self), html_parts.preformatted(self))
        try:
            path.write_text(page, encoding="utf-8")
        except OSError as error:
            raise AccelError(
                f"save {path}",
                because=error.strerror or str(error),
                do="Give a path in a folder that you can write to.",
            ) from error
        return path


def _range(rates: Sequence[float]) -> str:
    least, most = f"{min(rates):.0f}", f"{max(rates):.0f}"
    return least if least == most else f"{least} to {most}"


def _meaning(link: Link) -> str:
    return str(link) if link.nvlinks else f"PCIe, through {WAYS[link.label]}"
