"""Where a device sits on the PCIe tree, as /sys shows it, and so by which way two of them reach each other."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from accel.machine.cpu_lists import cpus_in
from accel.machine.system_files import number_of, numbered, text_of

_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
_ROOT = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}$")


@dataclass(frozen=True)
class PciDevice:
    """A device: the bridges on the way to it, from the host bridge ("pci0000:00") down to itself; empty where /sys is not."""

    name: str
    bus_id: str
    path: tuple[str, ...] = ()
    numa_node: int | None = None
    cpus: tuple[int, ...] = ()
    about: str = ""


def pci_device(name: str, bus_id: str, root: Path | str = "/") -> PciDevice:
    """The device of that bus id ("0000:3b:00.0")."""
    folder = Path(root) / "sys/bus/pci/devices" / bus_id
    return PciDevice(
        name, bus_id, _path(folder), _node(folder, root), cpus_in(text_of(folder / "local_cpulist"))
    )


def network_cards(root: Path | str = "/") -> list[PciDevice]:
    """The cards that a collective can use directly (InfiniBand and RoCE), by name."""
    found = []
    for card in sorted((Path(root) / "sys/class/infiniband").glob("*")):
        folder = Path(os.path.realpath(card / "device"))
        found.append(PciDevice(card.name, folder.name, _path(folder), _node(folder, root)))
    return found


def other_cards(root: Path | str = "/") -> list[PciDevice]:
    """Network cards by the names of their interfaces ("eth0"), RDMA-capable or not; interfaces without hardware are left out."""
    found = []
    for card in sorted((Path(root) / "sys/class/net").glob("*")):
        if (card / "device").exists():
            folder = _pci_folder(Path(os.path.realpath(card / "device")))
            cpus = cpus_in(text_of(folder / "local_cpulist"))
            node = _node(folder, root)
            found.append(PciDevice(card.name, folder.name, _path(folder), node, cpus, _about(card)))
    return found


def _about(card: Path) -> str:
    """Driver and speed of an interface, where it tells them."""
    driver = card / "device/driver"
    speed = number_of(card / "speed")  # in Mb/s; -1 or an error where it is unknown
    gigabits = "" if speed is None else f"{speed / 1000:g} Gb/s"
    return ", ".join(filter(None, (Path(os.path.realpath(driver)).name if driver.exists() else "", gigabits)))


def _pci_folder(folder: Path) -> Path:
    """The folder of the PCI device that a folder of /sys belongs to: virtio's are one below; itself where there is none."""
    return next((each for each in (folder, *folder.parents) if _ADDRESS.match(each.name)), folder)


def way_between(first: PciDevice, second: PciDevice) -> str:
    """The label of the way over PCIe: PIX, PXB, PHB, NODE or SYS.

    Two devices of one switch have its upstream port in common, then a downstream port each.
    """
    common = 0
    for here, there in zip(first.path, second.path, strict=False):
        if here != there:
            break
        common += 1
    if common > 1:
        below = max(len(first.path), len(second.path)) - common
        return "PIX" if below <= 2 else "PXB"
    if common == 1:
        return "PHB"
    same_node = first.numa_node is not None and first.numa_node == second.numa_node
    return "NODE" if same_node else "SYS"


def _path(folder: Path) -> tuple[str, ...]:
    parts = Path(os.path.realpath(folder)).parts
    start = next((n for n, part in enumerate(parts) if _ROOT.match(part)), None)
    return parts[start:] if start is not None else ()


def _node(folder: Path, root: Path | str) -> int | None:
    """The node that a device is at: where the kernel writes -1, the only one that there is."""
    node = number_of(folder / "numa_node")
    nodes = numbered(Path(root) / "sys/devices/system/node", "node")
    return nodes[0][0] if node is None and len(nodes) == 1 else node
