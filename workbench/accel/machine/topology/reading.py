"""The topology of this machine, from the NVIDIA driver (NVML) and, for network cards, from /sys; or of a printed matrix."""

from __future__ import annotations

import codecs
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from accel.errors import AccelError
from accel.machine.affinity.cpu_map import LogicalCpu, read_cpu_map
from accel.machine.gpu_details.nvlinks import SWITCH, read_nvlinks
from accel.machine.nvml import asked, device_name, opened_nvml, short_bus_id
from accel.machine.topology.devices import Device, NumaNode
from accel.machine.topology.links import Link
from accel.machine.topology.matrix_text import read_matrix
from accel.machine.topology.pci_paths import PciDevice, network_cards, other_cards, pci_device, way_between
from accel.machine.topology.topology import Topology

NO_DRIVER = "no NVIDIA driver answers here"
# NVML_TOPOLOGY_*: what two GPUs have in common on the way to the CPU.
ANCESTORS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}


def topology(from_file: str | None = None) -> Topology:
    """How the GPUs and network cards of this machine are joined, or those of a printed matrix (`from_file`; "-": standard input).

    >>> print(accel.topology())
    >>> print(accel.topology(from_file="topo.txt").best_gpus(4))

    Raises AccelError for a file that is not there or holds no matrix.
    """
    return read_topology() if from_file is None else read_matrix(_text_of(from_file), source=from_file)


def read_topology(root: Path | str = "/") -> Topology:
    """That of this machine; without a driver only its NUMA nodes and network cards."""
    with opened_nvml() as nvml:
        found = Topology((), (), NO_DRIVER) if nvml is None else topology_of(nvml, root)
    return with_the_machine(found, root)


def with_the_machine(found: Topology, root: Path | str = "/") -> Topology:
    """A topology with the NUMA nodes and the other network cards that the /sys below `root` tells."""
    known = {device.path for device in found.devices}
    cards = tuple(
        Device(card.name, card.cpus, card.numa_node, card.about, path=card.path)
        for card in other_cards(root)
        if not card.path or card.path not in known
    )
    return replace(found, nodes=numa_nodes(root), other_cards=cards)


def numa_nodes(root: Path | str = "/") -> tuple[NumaNode, ...]:
    """The NUMA nodes below `root` that have CPUs; none where there is no /sys."""
    cpus: dict[int, list[LogicalCpu]] = {}
    for cpu in read_cpu_map(root).cpus:
        cpus.setdefault(cpu.numa_node, []).append(cpu)
    return tuple(
        NumaNode(number, tuple(sorted(cpu.number for cpu in found)), found[0].socket)
        for number, found in sorted(cpus.items())
    )


def topology_of(nvml: Any, root: Path | str = "/") -> Topology:
    """What an NVML (the module, already initialised) and a /sys below `root` tell together."""
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    places = [pci_device(f"GPU{index}", _bus_id(nvml, handle), root) for index, handle in enumerate(handles)]
    cards = network_cards(root)
    if not handles:
        return Topology((), (), "the driver knows no GPU")
    gpus = [
        Device(
            place.name, place.cpus, place.numa_node, device_name(nvml, handle), path=place.path,
            memory_node=asked(nvml, "nvmlDeviceGetNumaNodeId", handle),
        )
        for place, handle in zip(places, handles, strict=True)
    ]  # fmt: skip
    nics = [
        Device(f"NIC{n}", numa_node=card.numa_node, model=card.name, path=card.path)
        for n, card in enumerate(cards)
    ]
    everything = [*places, *cards]
    numbers = {place.bus_id: number for number, place in enumerate(places)}
    nvlinks_of = [read_nvlinks(nvml, handle, numbers) for handle in handles]
    peers = [dict(found.peers) if found else {} for found in nvlinks_of]

    def link(first: int, second: int) -> Link:
        if first == second:
            return Link("X")
        if max(first, second) < len(handles):
            nvlinks = _nvlinks_between(peers, first, second)
            return _link(nvml, handles, places, first, second, nvlinks)
        return Link(way_between(everything[first], everything[second]))

    count = len(everything)
    links = tuple(tuple(link(min(a, b), max(a, b)) for b in range(count)) for a in range(count))
    capability = nvml.nvmlDeviceGetCudaComputeCapability(handles[0])
    generation = asked(nvml, "nvmlDeviceGetMaxPcieLinkGeneration", handles[0]) or 4
    return Topology((*gpus, *nics), links, "NVML", int(generation), (int(capability[0]), int(capability[1])))


def _link(
    nvml: Any, handles: list[Any], places: list[PciDevice], first: int, second: int, nvlinks: int
) -> Link:
    if nvlinks:
        return Link(f"NV{nvlinks}")
    common = asked(nvml, "nvmlDeviceGetTopologyCommonAncestor", handles[first], handles[second])
    if common is None:
        return Link(way_between(places[first], places[second]))
    return Link(ANCESTORS.get(int(common), "SYS"))


def _nvlinks_between(peers: list[dict[str, int]], first: int, second: int) -> int:
    """Active NVLinks from one GPU to the other; behind an NVSwitch each GPU reaches every other with all of its own."""
    direct = peers[first].get(f"GPU {second}", 0)
    return direct or (peers[first].get(SWITCH, 0) if SWITCH in peers[second] else 0)


def _bus_id(nvml: Any, handle: Any) -> str:
    return short_bus_id(nvml.nvmlDeviceGetPciInfo(handle).busId)


def _text_of(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    path = Path(file).expanduser()
    try:
        return _decoded(path.read_bytes())
    except OSError as error:
        raise AccelError(
            f"topology from {file}", because=error.strerror or str(error),
            do="Write the matrix to a file first: nvidia-smi topo -m > topo.txt.",
        ) from error  # fmt: skip


def _decoded(content: bytes) -> str:
    """The text of a file; PowerShell's `>` writes UTF-16."""
    marks = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16", codecs.BOM_UTF8: "utf-8-sig"}
    encoding = next((name for mark, name in marks.items() if content.startswith(mark)), "utf-8")
    return content.decode(encoding, errors="replace")
