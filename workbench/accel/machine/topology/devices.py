"""What a topology is made of: GPUs and network cards, and the NUMA nodes that they sit at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
class NumaNode:
    """A NUMA node with its CPUs; `socket` is None where nothing tells it."""

    number: int
    cpus: tuple[int, ...] = ()
    socket: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The node as plain values."""
        return {"number": self.number, "cpus": list(self.cpus), "socket": self.socket}
