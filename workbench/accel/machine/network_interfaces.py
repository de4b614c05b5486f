"""The network interfaces of this machine as /sys has them: Ethernet, InfiniBand or a bridge, how fast, RDMA or not."""

from __future__ import annotations

import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from accel.machine.system_files import number_of, text_of

Kind = Literal["Ethernet", "InfiniBand", "loopback", "virtual"]
_ETHERNET, _INFINIBAND, _LOOPBACK = 1, 32, 772  # of /sys/class/net/*/type: include/uapi/linux/if_arp.h


@dataclass(frozen=True)
class NetworkInterface:
    """One interface; `bytes_per_s` is None where its driver tells no speed, as that of a virtual machine."""

    name: str
    kind: Kind
    is_up: bool
    bytes_per_s: float | None
    rdma: str = ""  # the device that sends without the kernel, such as "mlx5_0"
    addresses: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Its fields as plain values."""
        return asdict(self)


def network_interfaces(root: str | Path = "/") -> tuple[NetworkInterface, ...]:
    """All that are up or have a card, loopback last.

    >>> [each.name for each in network_interfaces()]
    ['eth0', 'lo']
    """
    folder, addresses = Path(root) / "sys/class/net", _addresses() if str(root) == "/" else {}
    found = [
        _read(path, addresses.get(path.name, ()))
        for path in sorted(folder.glob("*"))
        if (path / "type").exists()
    ]
    return tuple(
        sorted((each for each in found if each.is_up or each.rdma), key=lambda each: each.kind == "loopback")
    )


def _read(path: Path, addresses: tuple[str, ...]) -> NetworkInterface:
    number, speed_mbit = number_of(path / "type"), number_of(path / "speed")
    rdma = next((each.name for each in sorted((path / "device/infiniband").glob("*"))), "")
    kinds: dict[int | None, Kind] = {_INFINIBAND: "InfiniBand", _LOOPBACK: "loopback"}
    kind: Kind = kinds.get(number, "Ethernet" if (path / "device").exists() else "virtual")
    is_up = text_of(path / "operstate") in ("up", "unknown")
    return NetworkInterface(
        path.name, kind, is_up, speed_mbit * 1e6 / 8 if speed_mbit and speed_mbit > 0 else None, rdma, addresses
    )  # fmt: skip


def _addresses() -> dict[str, tuple[str, ...]]:
    import psutil

    return {
        name: tuple(each.address for each in given if each.family == socket.AF_INET)
        for name, given in psutil.net_if_addrs().items()
    }
