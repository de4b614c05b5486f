"""A driver to ask: the module `pynvml` of machines that are not here, with the signatures of the real one.

Answers are as the documentation of NVML has them; None is a question that the GPU does not support.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pynvml

GIB = 2**30


class NVMLError(Exception):
    """Stands for the real one, whose classes are made by error number."""


@dataclass(eq=False)
class FakeMig:
    """An instance of a divided GPU."""

    uuid: str
    name: str
    memory: tuple[int, int]
    processors: int
    gpu_instance: int
    compute_instance: int = 0


@dataclass(eq=False)
class FakeGpu:
    """A GPU. `nvlinks`: link number → what it leads to ("switch", "cpu" or another's number), None where it is down."""

    name: str | bytes
    bus_id: str
    uuid: str | bytes | None = None
    memory: tuple[int, int] | None = (80 * GIB, 79 * GIB)  # total, free
    capability: tuple[int, int] = (9, 0)
    sm_mhz: tuple[int, int] | None = (345, 1980)  # now, highest
    memory_mhz: tuple[int, int] | None = (2619, 2619)
    power_mw: tuple[int, int, int] | None = (71_400, 700_000, 700_000)  # now, limit, default
    temperatures: tuple[int, int, int] | None = (34, 87, 92)  # now, slowdown, shutdown
    reasons: int | None = 0x1
    generation: tuple[int, int, int] | None = (5, 5, 5)  # now, with the slot, its own
    width: tuple[int, int] | None = (16, 16)  # now, with the slot
    nvlinks: dict[int, int | str | None] = field(default_factory=dict)
    nvlink_version: int | None = 6
    cpus: range | None = None
    nodes: tuple[int, ...] | None = None
    mig_mode: list[int] | None = None  # now, after the next reset
    instances: tuple[FakeMig | None, ...] = ()
    ecc: list[int] | None = None
    is_persistent: int | None = 1
    memory_node: int | None = None


@dataclass
class FakeNvml:
    """The module. `p2p`: (number, number, way) → status, else `p2p_status`; `unknown`: functions that this driver lacks."""

    gpus: list[FakeGpu]
    ancestors: dict[frozenset[int], int] = field(default_factory=dict)
    p2p_status: int | None = 5
    p2p: dict[tuple[int, int, int], int] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    driver: str | None = "580.65.06"
    cuda: int | None = 13000
    why_broken: str = ""
    opened: int = 0
    NVMLError = NVMLError

    def nvmlInit(self) -> None:
        if self.why_broken:
            raise NVMLError(self.why_broken)
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1

    def __getattr__(self, question: str) -> Callable[..., Any]:
        if question not in ANSWERS:
            raise AttributeError(question)

        def ask(*arguments: Any) -> Any:
            inspect.signature(getattr(pynvml, question)).bind(*arguments)
            found = None if question in self.unknown else ANSWERS[question](self, *arguments)
            if found is None:
                raise NVMLError("Not Supported")
            return found

        return ask


def _part(name: str, which: int) -> Callable[..., Any]:
    """The answer is one number of several that the GPU keeps together."""

    def answer(nvml: FakeNvml, gpu: Any, *_: Any) -> Any:
        kept = getattr(gpu, name, None)
        return None if kept is None else kept[which]

    return answer


def _whole(name: str) -> Callable[..., Any]:
    return lambda nvml, gpu, *_: getattr(gpu, name, None)


def _clock(which: int) -> Callable[..., Any]:
    names = {pynvml.NVML_CLOCK_SM: "sm_mhz", pynvml.NVML_CLOCK_MEM: "memory_mhz"}
    return lambda nvml, gpu, kind: _part(names[kind], which)(nvml, gpu)


def _threshold(nvml: FakeNvml, gpu: FakeGpu, kind: int) -> Any:
    which = {pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN: 1, pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN: 2}[
        kind
    ]
    return _part("temperatures", which)(nvml, gpu)


def _memory(nvml: FakeNvml, gpu: FakeGpu | FakeMig) -> Any:
    if gpu.memory is None:
        return None
    total, free = gpu.memory
    return SimpleNamespace(total=total, free=free, used=total - free)


def _mask(numbers: Iterable[int] | None, words: int) -> list[int] | None:
    if numbers is None:
        return None
    if any(number >= 64 * words for number in numbers):
        raise NVMLError("Insufficient Size")
    return [sum(1 << number % 64 for number in numbers if number // 64 == word) for word in range(words)]


def _p2p(nvml: FakeNvml, first: FakeGpu, second: FakeGpu, way: int) -> int | None:
    assert isinstance(way, int)  # the constant for reading is a tuple in nvidia-ml-py, which ctypes refuses
    return nvml.p2p.get((nvml.gpus.index(first), nvml.gpus.index(second), way), nvml.p2p_status)


def _link_state(nvml: FakeNvml, gpu: FakeGpu, link: int) -> int | None:
    return None if link not in gpu.nvlinks else int(gpu.nvlinks[link] is not None)


def _link_kind(nvml: FakeNvml, gpu: FakeGpu, link: int) -> int:
    return {"cpu": 1, "switch": 2}.get(str(gpu.nvlinks[link]), 0)


def _remote(nvml: FakeNvml, gpu: FakeGpu, link: int) -> Any:
    peer = gpu.nvlinks[link]
    return _pci(nvml, nvml.gpus[peer]) if isinstance(peer, int) else None


def _pci(nvml: FakeNvml, gpu: FakeGpu) -> Any:
    return SimpleNamespace(busId=f"0000{gpu.bus_id.upper()}".encode())


def _instance(nvml: FakeNvml, gpu: FakeGpu, number: int) -> FakeMig | None:
    return gpu.instances[number] if number < len(gpu.instances) else None


ANSWERS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetCount": lambda nvml: len(nvml.gpus),
    "nvmlDeviceGetHandleByIndex": lambda nvml, index: nvml.gpus[index],
    "nvmlSystemGetDriverVersion": lambda nvml: nvml.driver,
    "nvmlSystemGetCudaDriverVersion": lambda nvml: nvml.cuda,
    "nvmlDeviceGetName": _whole("name"),
    "nvmlDeviceGetUUID": _whole("uuid"),
    "nvmlDeviceGetPciInfo": _pci,
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetCudaComputeCapability": _whole("capability"),
    "nvmlDeviceGetClockInfo": _clock(0),
    "nvmlDeviceGetMaxClockInfo": _clock(1),
    "nvmlDeviceGetPowerUsage": _part("power_mw", 0),
    "nvmlDeviceGetEnforcedPowerLimit": _part("power_mw", 1),
    "nvmlDeviceGetPowerManagementLimit": _part("power_mw", 1),
    "nvmlDeviceGetPowerManagementDefaultLimit": _part("power_mw", 2),
    "nvmlDeviceGetTemperature": _part("temperatures", 0),
    "nvmlDeviceGetTemperatureThreshold": _threshold,
    "nvmlDeviceGetCurrentClocksEventReasons": _whole("reasons"),
    "nvmlDeviceGetCurrentClocksThrottleReasons": _whole("reasons"),
    "nvmlDeviceGetCurrPcieLinkGeneration": _part("generation", 0),
    "nvmlDeviceGetMaxPcieLinkGeneration": _part("generation", 1),
    "nvmlDeviceGetGpuMaxPcieLinkGeneration": _part("generation", 2),
    "nvmlDeviceGetCurrPcieLinkWidth": _part("width", 0),
    "nvmlDeviceGetMaxPcieLinkWidth": _part("width", 1),
    "nvmlDeviceGetNvLinkState": _link_state,
    "nvmlDeviceGetNvLinkVersion": lambda nvml, gpu, link: gpu.nvlink_version,
    "nvmlDeviceGetNvLinkRemoteDeviceType": _link_kind,
    "nvmlDeviceGetNvLinkRemotePciInfo": _remote,
    "nvmlDeviceGetTopologyCommonAncestor": lambda nvml, first, second: nvml.ancestors.get(
        frozenset((nvml.gpus.index(first), nvml.gpus.index(second)))
    ),
    "nvmlDeviceGetP2PStatus": _p2p,
    "nvmlDeviceGetCpuAffinity": lambda nvml, gpu, words: _mask(gpu.cpus, words),
    "nvmlDeviceGetMemoryAffinity": lambda nvml, gpu, words, scope: _mask(gpu.nodes, words),
    "nvmlDeviceGetNumaNodeId": _whole("memory_node"),
    "nvmlDeviceGetMigMode": _whole("mig_mode"),
    "nvmlDeviceGetMaxMigDeviceCount": lambda nvml, gpu: len(gpu.instances) if gpu.mig_mode else None,
    "nvmlDeviceGetMigDeviceHandleByIndex": _instance,
    "nvmlDeviceGetGpuInstanceId": _whole("gpu_instance"),
    "nvmlDeviceGetComputeInstanceId": _whole("compute_instance"),
    "nvmlDeviceGetAttributes": lambda nvml, mig: SimpleNamespace(multiprocessorCount=mig.processors),
    "nvmlDeviceGetEccMode": _whole("ecc"),
    "nvmlDeviceGetPersistenceMode": _whole("is_persistent"),
}


def eight_h100() -> FakeNvml:
    """HGX H100: every GPU has 18 links to NVSwitch; four at each of two sockets with 112 CPUs."""
    gpus = [
        FakeGpu(
            "NVIDIA H100 80GB HBM3",
            f"0000:{number + 1:02x}:00.0",
            f"GPU-{number}f0a5c3e-0000-4000-8000-000000000000",
            nvlinks=dict.fromkeys(range(18), "switch"),
            cpus=range(56 * (number // 4), 56 * (number // 4) + 56),
            nodes=(number // 4,),
            mig_mode=[0, 0],
            ecc=[1, 1],
        )
        for number in range(8)
    ]
    return FakeNvml(gpus, p2p_status=0)


def two_rtx_4090() -> FakeNvml:
    """A desktop: no NVLink, no peer access, the second GPU in a slot of PCIe 4 x4 and short of power."""
    first = FakeGpu(
        "NVIDIA GeForce RTX 4090", "0000:01:00.0", "GPU-aa0000", (24564 * 2**20, 23 * GIB), (8, 9),
        (2520, 3105), (10501, 10501), (60_000, 450_000, 450_000), (45, 90, 95), 0x1,
        (1, 4, 4), (16, 16), is_persistent=0,
    )  # fmt: skip
    second = replace(
        first, bus_id="0000:05:00.0", uuid="GPU-bb0000", reasons=0x24,
        power_mw=(299_000, 300_000, 450_000), width=(4, 4), generation=(4, 4, 4),
    )  # fmt: skip
    return FakeNvml([first, second], {frozenset((0, 1)): 30}, p2p_status=2)


def divided_a100() -> FakeNvml:
    """An A100 in MIG mode with two of seven instances, at numbers with a gap."""
    instances = (
        FakeMig("MIG-11111111-aaaa", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", (20 * GIB, 19 * GIB), 42, 1),
        None,
        FakeMig("MIG-22222222-bbbb", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", (5 * GIB, 4 * GIB), 14, 9),
    )
    gpu = FakeGpu(
        "NVIDIA A100-SXM4-40GB", "0000:3b:00.0", "GPU-cc0000-0001", (40 * GIB, 39 * GIB), (8, 0),
        mig_mode=[1, 1], instances=instances, ecc=[1, 0], generation=(4, 4, 4),
        nvlinks=dict.fromkeys(range(12)),
    )  # fmt: skip
    return FakeNvml([gpu])


def old_driver() -> FakeNvml:
    """A GPU of long ago: names as bytes, and most questions not known."""
    gpu = FakeGpu(
        b"Tesla K80", "0000:04:00.0", b"GPU-dd0000", (11 * GIB, 11 * GIB), (3, 7),
        sm_mhz=None, memory_mhz=None, power_mw=None, temperatures=None, generation=None, width=None, is_persistent=None,
    )  # fmt: skip
    lacking = {
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetMigMode",
        "nvmlSystemGetCudaDriverVersion",
    }
    return FakeNvml(
        [gpu], unknown=frozenset(lacking | {"nvmlDeviceGetCurrentClocksThrottleReasons"}), driver="390.1"
    )


def broken() -> FakeNvml:
    """A driver whose library and kernel module are of different versions."""
    return FakeNvml([], why_broken="Driver/library version mismatch")
