"""Topology: which devices of a machine are joined by which link, as a matrix."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from accel import html_parts
from accel.errors import AccelError, UnknownName
from accel.machine.cpu_lists import cpu_list
from accel.machine.topology.devices import Device, NumaNode
from accel.machine.topology.links import ASSUMED_CAPABILITY, ASSUMED_PCIE, WAYS, Link

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
    (Ethernet); both are known of this machine only. `capability` is the GPUs' compute capability, None where it is not told.
    `visible` are the GPUs that CUDA may use (None: all), and `notes` sentences on why some are missing.

    >>> topology = read_matrix(Path("topo.txt").read_text())
    >>> topology.link("GPU0", "GPU3")
    Link(label='NV2')
    >>> print(topology.best_gpus(2))
    """

    devices: tuple[Device, ...]
    links: tuple[tuple[Link, ...], ...]
    source: str = ""
    capability: tuple[int, int] | None = None
    nodes: tuple[NumaNode, ...] = ()
    other_cards: tuple[Device, ...] = ()
    visible: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()

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
    def usable_gpus(self) -> tuple[Device, ...]:
        """Those of them that CUDA may use: not more than CUDA_VISIBLE_DEVICES names."""
        return tuple(gpu for gpu in self.gpus if self.visible is None or gpu.index in self.visible)

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

    def gb_per_s(self, first: Device, second: Device) -> float:
        """About what the link between two carries in one direction, in GB/s; of two slots the slower one counts."""
        link = self.link(first.name, second.name)
        slots = [device.pcie for device in (first, second) if device.pcie]
        rates = (
            link.gb_per_s(pcie=slot, capability=self.capability or ASSUMED_CAPABILITY)
            for slot in slots or [ASSUMED_PCIE]
        )
        return min(rates)

    @property
    def assumed(self) -> str:
        """What the rates to and between GPUs assume because nothing tells it, as a sentence; empty where all is told."""
        joined = [pair for pair in self.pairs(self.devices) if pair[0].is_gpu or pair[1].is_gpu]
        untold = any(not (link.nvlinks or a.pcie or b.pcie) for a, b, link in joined)
        generation, lanes = ASSUMED_PCIE
        nvlinks = any(link.nvlinks for *_, link in joined) and self.capability is None
        parts = [
            *([f"PCIe {generation} x{lanes}"] if untold else []),
            *([f"NVLinks of Ampere ({Link('NV1').gb_per_s():.0f} GB/s each)"] if nvlinks else []),
        ]
        return f"These rates assume {' and '.join(parts)}: nothing tells which they are." if parts else ""

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
        from accel.machine.topology.gpu_choice import can_choose

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

        >>> accel.topology().save("topology.html")

        Raises AccelError where the file cannot be written.
        """
        from accel.machine.topology.matrix_html import html_of

        path = Path(path).expanduser()
        page = html_parts.page("Topology", html_of(self), html_parts.preformatted(self))
        try:
            path.write_text(page, encoding="utf-8")
        except OSError as error:
            raise AccelError(
                f"save {path}",
                because=error.strerror or str(error),
                do="Give a path in a folder that you can write to.",
            ) from error
        return path

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        from accel.machine.topology.matrix_html import html_of

        return {"text/plain": str(self), "text/html": str(html_of(self))}


def _range(rates: Sequence[float]) -> str:
    least, most = f"{min(rates):.0f}", f"{max(rates):.0f}"
    return least if least == most else f"{least} to {most}"


def _meaning(link: Link) -> str:
    return str(link) if link.nvlinks else f"PCIe, through {WAYS[link.label]}"
