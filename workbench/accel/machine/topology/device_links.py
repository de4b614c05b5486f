"""The devices of a machine and the link between every two of them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from accel.errors import AccelError, UnknownName
from accel.machine.topology.links import (
    ASSUMED_CAPABILITY,
    ASSUMED_PCIE,
    HOPPER,
    MOST_LINKS_OF_A_GPU,
    NVLINKS_OF_AMPERE,
    Link,
    nvlink_gb_per_s,
)


@dataclass(frozen=True)
class Device:
    """A GPU or a network card, by the name that `nvidia-smi` gives it; `cpus` are the CPUs that it is near to.

    `numa_node` is None where nothing tells it; `other_nodes` are further ones that it is as near to; `memory_node` is the node
    that its own memory is (the column "GPU NUMA ID"). `model` ("mlx5_0", "NVIDIA H100") and `path`, the PCI bridges from the
    host bridge down to it, are empty where they are not known; `pcie` is (generation, lanes) that GPU and slot can do together.
    """

    name: str
    cpus: tuple[int, ...] = ()
    numa_node: int | None = None
    model: str = ""
    other_nodes: tuple[int, ...] = ()
    memory_node: int | None = None
    path: tuple[str, ...] = ()
    pcie: tuple[int, int] | None = None

    @property
    def is_gpu(self) -> bool:
        """Whether it computes; else it is a network card."""
        return self.name.startswith("GPU")

    @property
    def index(self) -> int:
        """The number in a GPU's name."""
        return int(self.name.removeprefix("GPU"))

    @property
    def near_nodes(self) -> tuple[int, ...]:
        """Every NUMA node that it is near to; none where nothing tells."""
        return () if self.numa_node is None else (self.numa_node, *self.other_nodes)

    def to_dict(self) -> dict[str, Any]:
        """The device as plain values."""
        return {
            "name": self.name, "cpus": list(self.cpus), "numa_node": self.numa_node, "model": self.model,
            "other_nodes": list(self.other_nodes), "memory_node": self.memory_node, "path": list(self.path),
            "pcie": self.pcie and {"generation": self.pcie[0], "lanes": self.pcie[1]},
        }  # fmt: skip


@dataclass(frozen=True)
class TopologyNode:
    """A NUMA node with its CPUs; `socket` is None where nothing tells it."""

    number: int
    cpus: tuple[int, ...] = ()
    socket: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The node as plain values."""
        return {"number": self.number, "cpus": list(self.cpus), "socket": self.socket}


@dataclass(frozen=True)
class DeviceLinks:
    """The devices of a machine and the link between every two of them; what follows from that is in `Topology`.

    `nodes` are the NUMA nodes with all their CPUs, and `other_cards` the network cards that a collective cannot use directly
    (Ethernet); both are known of this machine only. `capability` is the GPUs' compute capability, None where it is unknown.
    `visible` are the GPUs that CUDA may use (None: all), and `notes` sentences on why some are missing.
    """

    devices: tuple[Device, ...]
    links: tuple[tuple[Link, ...], ...]
    source: str = ""
    capability: tuple[int, int] | None = None
    nodes: tuple[TopologyNode, ...] = ()
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
            link.gb_per_s(pcie=slot, capability=self.capability or self._likely_capability)
            for slot in slots or [ASSUMED_PCIE]
        )
        return min(rates)

    @cached_property
    def _likely_capability(self) -> tuple[int, int]:
        """A guess from a GPU's number of NVLinks: to all other GPUs together, or with NVSwitches to one other GPU."""
        most = max((link.nvlinks for *_, link in self.pairs()), default=0)
        of_gpus = (
            sum(self.link(gpu.name, other.name).nvlinks for other in self.gpus if other is not gpu)
            for gpu in self.gpus
        )
        direct = max((count for count in of_gpus if count <= MOST_LINKS_OF_A_GPU), default=0)
        return HOPPER if max(most, direct) > NVLINKS_OF_AMPERE else ASSUMED_CAPABILITY

    @property
    def assumed(self) -> str:
        """What the rates to and between GPUs assume because nothing reports it, as a sentence; empty where all is known."""
        joined = [pair for pair in self.pairs(self.devices) if pair[0].is_gpu or pair[1].is_gpu]
        has_unknown_pcie = any(not (link.nvlinks or a.pcie or b.pcie) for a, b, link in joined)
        generation, lanes = ASSUMED_PCIE
        nvlinks = any(link.nvlinks for *_, link in joined) and self.capability is None
        name = "Hopper" if self._likely_capability == HOPPER else "Ampere"
        parts = [
            *([f"PCIe {generation} x{lanes}"] if has_unknown_pcie else []),
            *(
                [f"NVLinks of {name} ({nvlink_gb_per_s(self._likely_capability):.0f} GB/s each)"]
                if nvlinks
                else []
            ),
        ]
        return (
            f"These rates assume {' and '.join(parts)}: the system does not report the actual ones."
            if parts
            else ""
        )

    def pairs(self, devices: Sequence[Device] | None = None) -> Iterator[tuple[Device, Device, Link]]:
        """Every two devices (default: every two GPUs) with their link."""
        for first, second in itertools.combinations(self.gpus if devices is None else devices, 2):
            yield first, second, self.link(first.name, second.name)
