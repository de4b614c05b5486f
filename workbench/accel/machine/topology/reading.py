"""The topology of this machine, from the NVIDIA driver (NVML) and, for network cards, from /sys; or of a printed matrix."""

from __future__ import annotations

import codecs
import os
import stat
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from accel.errors import AccelError
from accel.machine.affinity.cpu_map import LogicalCpu, read_cpu_map
from accel.machine.gpu_details.nvlinks import SWITCH, read_nvlinks
from accel.machine.gpu_details.reading import all_handles, bus_id
from accel.machine.nvml import asked, device_name, opened_nvml
from accel.machine.topology.device_links import Device, TopologyNode
from accel.machine.topology.links import Link
from accel.machine.topology.matrix_text import read_matrix
from accel.machine.topology.pci_paths import PciDevice, network_cards, other_cards, pci_device, way_between
from accel.machine.topology.topology import Topology
from accel.machine.visible_gpus import hidden_gpus, visible_gpus

NO_DRIVER = "no NVIDIA driver answers here"
NO_GPU = "the driver knows no GPU"
# NVML_TOPOLOGY_*: what two GPUs have in common on the way to the CPU.
ANCESTORS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}

MOST_BYTES = 1 << 20  # of a matrix; a device may have no end


def topology(from_file: str | None = None, *, text: str | None = None, html: str | None = None) -> Topology:
    """How the GPUs and network cards of this machine are joined, or those of a printed matrix.

    >>> print(accel.topology())
    >>> print(accel.topology(from_file="topo.txt").best_gpus(4))

    `from_file` is a file with it ("-": standard input), `text` the matrix itself; `html` is a file to write it to as a page.
    Raises AccelError for both, for a file that is not there or cannot be written, and for what is no matrix.
    """
    found = _found(from_file, text)
    if html is not None:
        found.save(html)
    return found


def _found(from_file: str | None, text: str | None) -> Topology:
    if text is not None and from_file is not None:
        raise AccelError(
            f"topology from {from_file}", because="a matrix is given as text as well", do="Give one of them."
        )
    if text is not None:
        return read_matrix(text, source="the pasted matrix")
    return read_topology() if from_file is None else read_matrix(_text_of(from_file), source=from_file)


def read_topology(root: Path | str = "/") -> Topology:
    """That of this machine; without a driver only its NUMA nodes and network cards."""
    setting = os.environ.get("CUDA_VISIBLE_DEVICES")
    with opened_nvml() as nvml:
        found = Topology((), (), NO_DRIVER) if nvml is None else topology_of(nvml, root, setting=setting)
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


def numa_nodes(root: Path | str = "/") -> tuple[TopologyNode, ...]:
    """The NUMA nodes below `root` that have CPUs; none where there is no /sys."""
    cpus: dict[int, list[LogicalCpu]] = {}
    for cpu in read_cpu_map(root).cpus:
        cpus.setdefault(cpu.numa_node, []).append(cpu)
    return tuple(
        TopologyNode(number, tuple(sorted(cpu.number for cpu in found)), found[0].socket)
        for number, found in sorted(cpus.items())
    )


def topology_of(nvml: Any, root: Path | str = "/", *, setting: str | None = None) -> Topology:
    """What an NVML (the module, already initialised) and a /sys below `root` tell together.

    `setting` is what CUDA_VISIBLE_DEVICES says. A GPU that does not answer is left out, and the others keep their numbers.
    """
    handles = all_handles(nvml)
    notes = tuple(f"{why[0].upper()}{why[1:]}" for why in hidden_gpus(nvml, setting))
    if not handles:
        return Topology(
            (), (), "; ".join(["the driver knows no GPU that answers" if notes else NO_GPU, *notes])
        )
    buses = {number: bus_id(nvml, handle) or "none" for number, handle in handles.items()}
    places = {number: pci_device(f"GPU{number}", bus, root) for number, bus in buses.items()}
    cards = network_cards(root)
    gpus = [_gpu(nvml, handle, places[number]) for number, handle in handles.items()]
    nics = [
        Device(f"NIC{n}", numa_node=card.numa_node, model=card.name, path=card.path)
        for n, card in enumerate(cards)
    ]
    numbers = {bus: number for number, bus in buses.items()}
    nvlinks_of = {number: read_nvlinks(nvml, handle, numbers) for number, handle in handles.items()}
    peers = {number: dict(found.peers) if found else {} for number, found in nvlinks_of.items()}
    everything: list[tuple[int | None, PciDevice]] = [*places.items(), *((None, card) for card in cards)]

    def link(first: int, second: int) -> Link:
        (one, here), (other, there) = everything[first], everything[second]
        if first == second:
            return Link("X")
        if one is None or other is None:
            return Link(way_between(here, there))
        if nvlinks := _nvlinks_between(peers, one, other):
            return Link(f"NV{nvlinks}")
        return _over_pcie(nvml, (handles[one], handles[other]), here, there)

    count = len(everything)
    links = tuple(tuple(link(min(a, b), max(a, b)) for b in range(count)) for a in range(count))
    capability = _capability(nvml, handles.values())
    visible = tuple(gpu.nvml_index for gpu in visible_gpus(nvml, setting))
    return Topology((*gpus, *nics), links, "NVML", capability, visible=visible, notes=notes)


def _gpu(nvml: Any, handle: Any, place: PciDevice) -> Device:
    generation = asked(nvml, "nvmlDeviceGetMaxPcieLinkGeneration", handle)
    lanes = asked(nvml, "nvmlDeviceGetMaxPcieLinkWidth", handle)
    return Device(
        place.name, place.cpus, place.numa_node, device_name(nvml, handle), path=place.path,
        memory_node=asked(nvml, "nvmlDeviceGetNumaNodeId", handle),
        pcie=(int(generation), int(lanes)) if generation and lanes else None,
    )  # fmt: skip


def _capability(nvml: Any, handles: Iterable[Any]) -> tuple[int, int] | None:
    """That of the first GPU that tells it."""
    answers = (asked(nvml, "nvmlDeviceGetCudaComputeCapability", handle) for handle in handles)
    return next(((int(major), int(minor)) for major, minor in filter(None, answers)), None)


def _over_pcie(nvml: Any, handles: tuple[Any, Any], first: PciDevice, second: PciDevice) -> Link:
    common = asked(nvml, "nvmlDeviceGetTopologyCommonAncestor", *handles)
    return Link(way_between(first, second) if common is None else ANCESTORS.get(int(common), "SYS"))


def _nvlinks_between(peers: dict[int, dict[str, int]], first: int, second: int) -> int:
    """Active NVLinks from one GPU to the other; behind an NVSwitch by as many as the one with fewer has."""
    direct = peers[first].get(f"GPU {second}", 0)
    return direct or min(peers[number].get(SWITCH, 0) for number in (first, second))


def _text_of(file: str) -> str:
    if file == "-":
        return _decoded(sys.stdin.buffer.read(MOST_BYTES + 1), file)
    try:
        with Path(file).expanduser().open("rb") as matrix:
            return _decoded(matrix.read(MOST_BYTES + 1), file)
    except OSError as error:
        raise AccelError(
            f"topology from {file}", because=error.strerror or str(error),
            do="Write the matrix to a file first: nvidia-smi topo -m > topo.txt.",
        ) from error  # fmt: skip


def unread_input() -> str:
    """What to do where a matrix may wait at standard input and no `--from` asks for it; empty where none can."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # closed, or no file, as in a notebook
        return ""
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode)):
        return ""
    return "Standard input was not read, and this is the machine here; to read a matrix from it: accel topology --from -"


def _decoded(content: bytes, file: str) -> str:
    """The text of a file; PowerShell's `>` writes UTF-16."""
    if len(content) > MOST_BYTES:
        raise AccelError(
            f"topology from {file}", because="it is larger than any matrix",
            do="Write one to a file: nvidia-smi topo -m > topo.txt.",
        )  # fmt: skip
    marks = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16", codecs.BOM_UTF8: "utf-8-sig"}
    encoding = next((name for mark, name in marks.items() if content.startswith(mark)), "utf-8")
    return content.decode(encoding, errors="replace")
