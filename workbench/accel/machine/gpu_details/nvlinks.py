"""A GPU's NVLinks: how many are up, of which version, and where they lead."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from accel.machine.nvml import asked, short_bus_id

MOST_NVLINKS = 36
VERSIONS = {
    1: "1.0",
    2: "2.0",
    3: "2.2",
    4: "3.0",
    5: "3.1",
    6: "4.0",
    7: "5.0",
    8: "6.0",
}  # NVML_NVLINK_VERSION_*
SWITCH = "NVSwitch"
KINDS = {1: "CPU", 2: SWITCH}  # NVML_NVLINK_DEVICE_TYPE_*; 0 is a GPU, which has a number


@dataclass(frozen=True)
class GpuNvLinks:
    """The NVLinks of one GPU; `peers` are (what it leads to, active links), GPUs by the number that `nvidia-smi` gives them."""

    count: int
    active: int
    version: str | None
    peers: tuple[tuple[str, int], ...]

    @property
    def in_short(self) -> str:
        """How many of which version, the same for GPUs that are joined alike.

        >>> gpu.details.nvlinks.in_short
        '18 NVLink 4.0 to NVSwitch'
        """
        of_all = f"{self.active} of {self.count}" if self.active < self.count else str(self.active)
        version = f" {self.version}" if self.version else ""
        is_switched = bool(self.peers) and all(peer == SWITCH for peer, _ in self.peers)
        return f"{of_all} NVLink{version}" + (f" to {SWITCH}" if is_switched else "")

    def __str__(self) -> str:
        if not self.active:
            return f"none of {self.count} NVLinks is up"
        each = ", ".join(f"{count} to {peer}" for peer, count in self.peers)
        return self.in_short if self.in_short.endswith(SWITCH) else f"{self.in_short} ({each})"


def read_nvlinks(nvml: Any, handle: Any, numbers: dict[str, int]) -> GpuNvLinks | None:
    """Those of a GPU; None where it has none or the driver does not tell. `numbers`: bus id → number of each GPU."""
    states = {
        link: int(state)
        for link in range(MOST_NVLINKS)
        if (state := asked(nvml, "nvmlDeviceGetNvLinkState", handle, link)) is not None
    }
    if not states:
        return None
    active = [link for link, state in states.items() if state == 1]
    version = asked(nvml, "nvmlDeviceGetNvLinkVersion", handle, active[0]) if active else None
    peers = Counter(_peer(nvml, handle, link, numbers) for link in active)
    return GpuNvLinks(len(states), len(active), VERSIONS.get(version or 0), tuple(sorted(peers.items())))


def _peer(nvml: Any, handle: Any, link: int, numbers: dict[str, int]) -> str:
    kind = asked(nvml, "nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
    if kind in KINDS:
        return KINDS[kind]
    remote = asked(nvml, "nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
    number = None if remote is None else numbers.get(short_bus_id(remote.busId))
    return "a device that the driver does not name" if number is None else f"GPU {number}"
