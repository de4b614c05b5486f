"""Ask NVML everything about one GPU, and /sys below any root what NVML does not tell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accel.machine.clock_reasons import clock_reasons, in_words
from accel.machine.cpu_lists import cpus_in
from accel.machine.gpu_details.details import Clocks, GpuDetails, PcieLink, Power, Temperatures
from accel.machine.gpu_details.mig import read_mig
from accel.machine.gpu_details.nvlinks import read_nvlinks
from accel.machine.gpu_details.peer_access import read_peer_access
from accel.machine.nvml import asked, asked_text, short_bus_id
from accel.machine.system_files import number_of, text_of

SM, MEMORY = 1, 2  # NVML_CLOCK_*
SHUTDOWN, SLOWDOWN = 0, 1  # NVML_TEMPERATURE_THRESHOLD_*
CPU_WORDS, NODE_WORDS = 64, 16  # of 64 bits each; a call with too few is refused
SCOPE_OF_NODE = 0  # NVML_AFFINITY_SCOPE_NODE


def read_gpu_details(nvml: Any, index: int, root: Path | str = "/") -> GpuDetails:
    """The GPU that `nvidia-smi` calls `index`, from an NVML that is already initialised.

    >>> with opened_nvml() as nvml:
    ...     print(read_gpu_details(nvml, 0))
    """
    gpus = all_handles(nvml)
    buses = {number: bus_id(nvml, each) for number, each in gpus.items()}
    gpu, bus = gpus[index], buses[index]
    device = Path(root) / "sys/bus/pci/devices" / (bus or "none")
    memory = asked(nvml, "nvmlDeviceGetMemoryInfo", gpu)
    ecc = asked(nvml, "nvmlDeviceGetEccMode", gpu)
    persistence = asked(nvml, "nvmlDeviceGetPersistenceMode", gpu)
    reasons = clock_reasons(nvml, gpu)
    return GpuDetails(
        nvml_index=index,
        uuid=asked_text(nvml, "nvmlDeviceGetUUID", gpu),
        bus_id=bus,
        free_bytes=None if memory is None else int(memory.free),
        clocks=_clocks(nvml, gpu),
        power=_power(nvml, gpu),
        temperatures=_temperatures(nvml, gpu),
        slowed_by=None if reasons is None else in_words(reasons),
        pcie=_pcie(nvml, gpu, device),
        nvlinks=read_nvlinks(nvml, gpu, {known: n for n, known in buses.items() if known}),
        peers=read_peer_access(nvml, gpu, {n: each for n, each in gpus.items() if n != index}),
        numa_node=_numa_node(nvml, gpu, device),
        cpus=_cpus(nvml, gpu, device),
        mig=read_mig(nvml, gpu),
        has_ecc=None if ecc is None else bool(ecc[0]),
        has_ecc_after_reset=None if ecc is None else bool(ecc[1]),
        is_persistent=None if persistence is None else bool(persistence),
    )


def all_handles(nvml: Any) -> dict[int, Any]:
    """The handle of each GPU by the number that `nvidia-smi` gives it; a GPU that fell off the bus has none."""
    found = {
        n: asked(nvml, "nvmlDeviceGetHandleByIndex", n) for n in range(asked(nvml, "nvmlDeviceGetCount") or 0)
    }
    return {number: handle for number, handle in found.items() if handle is not None}


def bus_id(nvml: Any, handle: Any) -> str | None:
    """A GPU's place on the PCI bus, as /sys writes it ("0000:3b:00.0")."""
    info = asked(nvml, "nvmlDeviceGetPciInfo", handle)
    return None if info is None else short_bus_id(info.busId)


def _clocks(nvml: Any, gpu: Any) -> Clocks:
    return Clocks(
        sm_mhz=asked(nvml, "nvmlDeviceGetClockInfo", gpu, SM),
        most_sm_mhz=asked(nvml, "nvmlDeviceGetMaxClockInfo", gpu, SM),
        memory_mhz=asked(nvml, "nvmlDeviceGetClockInfo", gpu, MEMORY),
        most_memory_mhz=asked(nvml, "nvmlDeviceGetMaxClockInfo", gpu, MEMORY),
    )


def _power(nvml: Any, gpu: Any) -> Power:
    def watts(question: str) -> float | None:
        found = asked(nvml, question, gpu)
        return None if found is None else found / 1000

    limit = watts("nvmlDeviceGetEnforcedPowerLimit")
    return Power(
        draw_w=watts("nvmlDeviceGetPowerUsage"),
        limit_w=watts("nvmlDeviceGetPowerManagementLimit") if limit is None else limit,
        default_limit_w=watts("nvmlDeviceGetPowerManagementDefaultLimit"),
    )


def _temperatures(nvml: Any, gpu: Any) -> Temperatures:
    return Temperatures(
        now_c=asked(nvml, "nvmlDeviceGetTemperature", gpu, 0),  # 0: NVML_TEMPERATURE_GPU, the only sensor
        slowdown_c=asked(nvml, "nvmlDeviceGetTemperatureThreshold", gpu, SLOWDOWN),
        shutdown_c=asked(nvml, "nvmlDeviceGetTemperatureThreshold", gpu, SHUTDOWN),
    )


def _pcie(nvml: Any, gpu: Any, device: Path) -> PcieLink:
    # What NVML calls the most is that of GPU and slot together: a GPU of 16 lanes in a slot of 8 has "at most 8".
    own_width = number_of(device / "max_link_width") or 0
    return PcieLink(
        generation=asked(nvml, "nvmlDeviceGetCurrPcieLinkGeneration", gpu),
        most_generation=asked(nvml, "nvmlDeviceGetMaxPcieLinkGeneration", gpu),
        own_generation=asked(nvml, "nvmlDeviceGetGpuMaxPcieLinkGeneration", gpu),
        width=asked(nvml, "nvmlDeviceGetCurrPcieLinkWidth", gpu),
        most_width=asked(nvml, "nvmlDeviceGetMaxPcieLinkWidth", gpu),
        own_width=own_width if 0 < own_width <= 32 else None,
    )


def _numa_node(nvml: Any, gpu: Any, device: Path) -> int | None:
    # nvmlDeviceGetNumaNodeId answers something else: the node that a GPU's own memory is, on Grace Hopper.
    written = number_of(device / "numa_node")
    if written is not None:
        return written
    words = asked(nvml, "nvmlDeviceGetMemoryAffinity", gpu, NODE_WORDS, SCOPE_OF_NODE)
    nodes = _bits(words or ())
    return nodes[0] if len(nodes) == 1 else None


def _cpus(nvml: Any, gpu: Any, device: Path) -> tuple[int, ...]:
    words = asked(nvml, "nvmlDeviceGetCpuAffinity", gpu, CPU_WORDS)
    return _bits(words) if words is not None else cpus_in(text_of(device / "local_cpulist"))


def _bits(words: Sequence[int]) -> tuple[int, ...]:
    return tuple(64 * n + bit for n, word in enumerate(words) for bit in range(64) if word >> bit & 1)
