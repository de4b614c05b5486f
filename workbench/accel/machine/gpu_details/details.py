"""What the driver tells about one GPU: a value that keeps None for each question it did not answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from accel.machine.cpu import cpu_list
from accel.machine.gpu_details.mig import Mig
from accel.machine.gpu_details.nvlinks import GpuNvLinks
from accel.machine.gpu_details.peer_access import PeerAccess
from accel.shown import Shown
from accel.units import size

NOT_REPORTED = "not reported by the driver"


@dataclass(frozen=True)
class Clocks:
    """Of the multiprocessors (SM) and of the memory: now, and the highest that the GPU has."""

    sm_mhz: int | None
    most_sm_mhz: int | None
    memory_mhz: int | None
    most_memory_mhz: int | None


@dataclass(frozen=True)
class Power:
    """What the GPU draws now, what it may draw, and what it may draw unless someone changed that."""

    draw_w: float | None
    limit_w: float | None
    default_limit_w: float | None


@dataclass(frozen=True)
class Temperatures:
    """Now; where the clocks are slowed down; where the GPU switches off."""

    now_c: int | None
    slowdown_c: int | None
    shutdown_c: int | None


@dataclass(frozen=True)
class PcieLink:
    """The link to the CPU: now, the most that GPU and slot can do together, and the most that the GPU itself can."""

    generation: int | None
    most_generation: int | None
    own_generation: int | None
    width: int | None
    most_width: int | None
    own_width: int | None

    def __str__(self) -> str:
        if self.most_generation is None and self.most_width is None:
            return NOT_REPORTED
        return f"PCIe {self.most_generation or '?'} x{self.most_width or '?'}"


@dataclass(frozen=True)
class GpuDetails(Shown):
    """Everything about one GPU that NVML answered; a question that it did not answer is None.

    >>> print(accel.machine().gpus[0].details)
    >>> accel.machine().gpus[0].details.power.draw_w
    71.4

    `nvml_index` is the number that `nvidia-smi` gives the GPU, `slowed_by` what holds its clocks back now (empty: nothing),
    `cpus` and `numa_node` those it is near to. `mig` is None where a GPU cannot be divided. Reading starts no CUDA context.
    """

    nvml_index: int
    uuid: str | None
    bus_id: str | None
    free_bytes: int | None
    clocks: Clocks
    power: Power
    temperatures: Temperatures
    slowed_by: tuple[str, ...] | None
    pcie: PcieLink
    nvlinks: GpuNvLinks | None
    peers: tuple[PeerAccess, ...]
    numa_node: int | None
    cpus: tuple[int, ...]
    mig: Mig | None
    has_ecc: bool | None
    has_ecc_after_reset: bool | None
    is_persistent: bool | None

    @property
    def facts(self) -> list[tuple[str, str]]:
        """(what, value) pairs in reading order, all of them."""
        clocks, power, heat, pcie = self.clocks, self.power, self.temperatures, self.pcie
        reasons = None if self.slowed_by is None else ", ".join(self.slowed_by) or "nothing"
        return [
            ("Number in nvidia-smi", str(self.nvml_index)),
            ("UUID", self.uuid or NOT_REPORTED),
            ("PCI bus", self.bus_id or NOT_REPORTED),
            ("Free memory", NOT_REPORTED if self.free_bytes is None else size(self.free_bytes)),
            ("SM clock", _now_of(clocks.sm_mhz, clocks.most_sm_mhz, " MHz")),
            ("Memory clock", _now_of(clocks.memory_mhz, clocks.most_memory_mhz, " MHz")),
            ("Power", _now_of(power.draw_w, power.limit_w, " W")),
            ("Power limit by default", _one(power.default_limit_w, " W")),
            ("Temperature", _one(heat.now_c, " °C")),
            ("Slows down, switches off at", f"{_one(heat.slowdown_c, ' °C')}, {_one(heat.shutdown_c, ' °C')}"),
            ("Clocks held back by", reasons or NOT_REPORTED),
            ("PCIe generation", _now_of(pcie.generation, pcie.most_generation, "")),
            ("PCIe lanes", _now_of(pcie.width, pcie.most_width, "")),
            ("PCIe of the GPU itself", f"generation {pcie.own_generation or '?'}, {pcie.own_width or '?'} lanes"),
            ("NVLink", str(self.nvlinks or "none")),
            *((f"Memory of GPU {peer.peer}", peer.words) for peer in self.peers),
            ("NUMA node", NOT_REPORTED if self.numa_node is None else str(self.numa_node)),
            ("Near to CPUs", cpu_list(self.cpus) or NOT_REPORTED),
            ("MIG", str(self.mig or "this GPU cannot be divided, or the driver does not tell")),
            *((f"MIG instance {n}", str(each)) for n, each in enumerate(self.mig.instances if self.mig else ())),
            ("ECC", _on(self.has_ecc)),
            ("Persistence mode", _on(self.is_persistent)),
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain numbers, strings, lists and dictionaries."""
        return asdict(self)


def _one(value: float | None, unit: str) -> str:
    return NOT_REPORTED if value is None else f"{value:.0f}{unit}"


def _now_of(now: float | None, most: float | None, unit: str) -> str:
    if now is None and most is None:
        return NOT_REPORTED
    first = "?" if now is None else f"{now:.0f}"
    return f"{first}{unit}" if most is None else f"{first} of {most:.0f}{unit}"


def _on(value: bool | None) -> str:
    return NOT_REPORTED if value is None else "on" if value else "off"
