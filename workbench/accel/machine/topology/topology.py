"""Topology: which devices of a machine are joined by which link, as a matrix."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from accel.errors import AccelError, UnknownName
from accel.machine.cpu_lists import cpu_list
from accel.machine.topology.devices import Device, NumaNode
from accel.machine.topology.links import WAYS, Link

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from accel.machine.topology.gpu_choice import GpuChoice
    from accel.machine.topology.machine_tree import Part
    from accel.machine.topology.nvlinks import NvLinks

RENUMBERING = (
    "Set both variables before CUDA is first used: without CUDA_DEVICE_ORDER=PCI_BUS_ID it counts the fastest GPU first, and its "
    "numbers need not be those of nvidia-smi."
)


@dataclass(frozen=True)
class Topology:
    """The devices of a machine and the link between every two of them.

    `nodes` are the NUMA nodes with all their CPUs, and `other_cards` the network cards that a collective cannot use directly
    (Ethernet); both are known of this machine only.

    >>> topology = read_matrix(Path("topo.txt").read_text())
    >>> topology.link("GPU0", "GPU3")
    Link(label='NV2')
    >>> print(topology.best_gpus(2))
    """

    devices: tuple[Device, ...]
    links: tuple[tuple[Link, ...], ...]
    source: str = ""
    pcie_generation: int = 4
    capability: tuple[int, int] = (8, 0)
    nodes: tuple[NumaNode, ...] = ()
    other_cards: tuple[Device, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.devices)
        if len(self.links) != count or any(len(row) != count for row in self.links):
            raise AccelError(
                "A topology",
                because=f"{count} devices need {count} rows of {count} links",
                do="Give all of them.",
            )

    @property
    def gpus(self) -> tuple[Device, ...]:
        """The GPUs, in order."""
        return tuple(device for device in self.devices if device.is_gpu)

    @property
    def network_cards(self) -> tuple[Device, ...]:
        """What is no GPU."""
        return tuple(device for device in self.devices if not device.is_gpu)

    @property
    def names(self) -> Collection[str]:
        """The names of the devices between which links are known."""
        return self._positions.keys()

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {device.name: position for position, device in enumerate(self.devices)}

    def link(self, first: str, second: str) -> Link:
        """The link between two devices; raises UnknownName."""
        for name in (first, second):
            if name not in self._positions:
                raise UnknownName("device", name, self._positions)
        return self.links[self._positions[first]][self._positions[second]]

    def gb_per_s(self, link: Link) -> float:
        """About what a link of this machine carries in one direction, in GB/s."""
        return link.gb_per_s(pcie_generation=self.pcie_generation, capability=self.capability)

    def pairs(self, devices: Sequence[Device] | None = None) -> Iterator[tuple[Device, Device, Link]]:
        """Every two devices (default: every two GPUs) with their link."""
        for first, second in itertools.combinations(self.gpus if devices is None else devices, 2):
            yield first, second, self.link(first.name, second.name)

    def best_gpus(self, count: int) -> GpuChoice:
        """The GPUs to use together: those whose farthest two are nearest; among equals, those joined best in sum.

        >>> topology.best_gpus(2).visible
        '0,3'

        Raises AccelError where there are not so many.
        """
        from accel.machine.topology.gpu_choice import best_gpus

        return best_gpus(self, count)

    def figure(self, kind: Literal["graph", "matrix"] = "graph") -> go.Figure:
        """A plotly figure: the machine with its nodes, switches and NVLinks, or the matrix in colours."""
        from accel.machine.topology.figures import figure_of

        return figure_of(self, kind)

    @property
    def matrix(self) -> str:
        """The matrix as `nvidia-smi topo -m` prints it, which `read_matrix` reads again."""
        from accel.machine.topology.writing_matrix import written

        return written(self)

    @property
    def legend(self) -> list[str]:
        """What the labels in use mean, with what such a link carries; nearest first."""
        used = sorted({link for row in self.links for link in row if link.label != "X"}, reverse=True)
        return [
            f"{link.label}: {_meaning(link)}; about {self.gb_per_s(link):.0f} GB/s in one direction"
            for link in used
        ]

    @property
    def advice(self) -> list[str]:
        """What follows for two, four … GPUs, and which two lie farthest apart."""
        from accel.machine.topology.gpu_choice import can_choose

        gpus = len(self.gpus)
        counts = [count for count in (2, 4, 8) if count < gpus or count == gpus == 2]
        lines = [str(self.best_gpus(count)) for count in counts if can_choose(count, gpus)]
        if len(self.gpus) > 2:
            nearest = max(link for _, _, link in self.pairs())
            first, second, link = min(self.pairs(), key=lambda pair: pair[2])
            is_even = not link < nearest
            lines.append(
                f"Every two GPUs are joined alike: {link}."
                if is_even
                else f"Farthest apart: {first.name} and {second.name}, by way of {link}."
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
        return [*lines, RENUMBERING] if gpus > 1 else lines

    @property
    def machine(self) -> Part:
        """The machine as parts within parts: sockets, NUMA nodes with CPUs, host bridges, switches, GPUs, network cards.

        >>> print(topology.machine)
        """
        from accel.machine.topology.machine_tree import machine_tree

        return machine_tree(self)

    @property
    def nvlinks(self) -> NvLinks:
        """The pairs of GPUs that NVLinks join, and the groups behind NVSwitch."""
        from accel.machine.topology.nvlinks import nvlinks_of

        return nvlinks_of(self)

    @property
    def drawing(self) -> str:
        """The machine and its NVLinks as text; a sentence where nothing is known of it."""
        if not self.machine.parts:
            return "CPUs and network cards are not known: there is no /sys here, where Linux tells them."
        return "\n".join(filter(None, (str(self.machine), str(self.nvlinks))))

    @property
    def no_gpu(self) -> str:
        """What is said where there is no GPU, with the reason."""
        return f"No GPU{f' ({self.source})' if self.source else ''}: there are no links to show."

    def __str__(self) -> str:
        if not self.devices:
            return f"{self.no_gpu}\n{self.drawing}"
        return "\n".join([self.matrix, "", *self.legend, "", self.drawing, "", *self.advice]).rstrip("\n")

    def to_dict(self) -> dict[str, Any]:
        """Devices, labels by pair, estimates, and the best choices, as plain values."""
        from accel.machine.topology.gpu_choice import can_choose

        gpus = len(self.gpus)
        return {
            "source": self.source,
            "devices": [device.to_dict() for device in self.devices],
            "other_cards": [card.to_dict() for card in self.other_cards],
            "machine": self.machine.to_dict(),
            "nodes": [node.to_dict() for node in self.nodes],
            "labels": [[link.label for link in row] for row in self.links],
            "gb_per_s": {
                f"{a.name}-{b.name}": self.gb_per_s(link) for a, b, link in self.pairs(self.devices)
            },
            "best": {
                str(count): self.best_gpus(count).to_dict() for count in range(2, gpus + 1) if can_choose(count, gpus)
            },
        }  # fmt: skip

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        from accel.machine.topology.matrix_html import html_of

        return {"text/plain": str(self), "text/html": str(html_of(self))}


def _meaning(link: Link) -> str:
    return str(link) if link.nvlinks else f"PCIe, through {WAYS[link.label]}"
