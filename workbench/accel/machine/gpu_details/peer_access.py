"""Whether one GPU reaches the memory of another by itself (P2P), and if not, why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel.machine.nvml import asked

# NVML_P2P_CAPS_INDEX_*, as numbers: nvidia-ml-py has `NVML_P2P_CAPS_INDEX_READ = 0,`, a tuple.
WAYS = {"read": 0, "write": 1, "nvlink": 2, "atomics": 3}
OK = "yes"
STATUS = {  # NVML_P2P_STATUS_*
    0: OK,
    1: "the chipset does not support it",
    2: "the GPU does not support it",
    3: "the way between their CPUs does not support it",
    4: "a setting of the driver switches it off",
    5: "not supported between these two",
}
REMEDIES = {
    2: "such GPUs copy through the CPU's memory, and NCCL does so by itself: prefer few, large exchanges",
    3: "choose GPUs of one socket: %accel topology names them",
    4: "look for ForceP2P or RMForceP2PType among the options of the module nvidia in /etc/modprobe.d",
}


@dataclass(frozen=True)
class PeerAccess:
    """What a GPU may do with the memory of GPU `peer` (numbered as by `nvidia-smi`): "yes", why not, or None where unknown."""

    peer: int
    read: str | None
    write: str | None
    nvlink: str | None
    atomics: str | None

    @property
    def is_possible(self) -> bool | None:
        """Whether it reads and writes there directly."""
        answers = (self.read, self.write)
        return None if None in answers else answers == (OK, OK)

    @property
    def statuses(self) -> dict[str, str | None]:
        """The answer to each way, in reading order."""
        return {"read": self.read, "write": self.write, "NVLink": self.nvlink, "atomics": self.atomics}

    @property
    def words(self) -> str:
        """All four in one line.

        >>> gpu.details.peers[0].words
        'read, write and atomics; no NVLink (not supported between these two)'
        """
        by_status: dict[str | None, list[str]] = {}
        for way, status in self.statuses.items():
            by_status.setdefault(status, []).append(way)
        able, unknown = by_status.pop(OK, []), by_status.pop(None, [])
        parts = [_listed(able, "and")] if able else []
        parts += [f"no {_listed(ways, 'or')} ({why})" for why, ways in by_status.items()]
        parts += [f"{_listed(unknown, 'and')} not reported by the driver"] if unknown else []
        return "; ".join(parts)

    def __str__(self) -> str:
        return f"GPU {self.peer}: {self.words}"


def read_peer_access(nvml: Any, handle: Any, others: dict[int, Any]) -> tuple[PeerAccess, ...]:
    """One for each of the other GPUs (number → handle)."""
    return tuple(PeerAccess(number, **_statuses(nvml, handle, other)) for number, other in others.items())


def remedy_for(status: str) -> str:
    """What to do about it; empty where nothing is.

    >>> remedy_for("the way between their CPUs does not support it")
    'choose GPUs of one socket: %accel topology names them'
    """
    return next((REMEDIES.get(code, "") for code, words in STATUS.items() if words == status), "")


def _statuses(nvml: Any, handle: Any, other: Any) -> dict[str, str | None]:
    codes = {way: asked(nvml, "nvmlDeviceGetP2PStatus", handle, other, index) for way, index in WAYS.items()}
    return {way: None if code is None else STATUS.get(code) for way, code in codes.items()}


def _listed(words: list[str], last: str) -> str:
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
