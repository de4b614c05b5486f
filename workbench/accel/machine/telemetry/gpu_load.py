"""How busy each GPU is: utilisation, memory, power, temperature, clock, what slows it, PCIe and NVLink traffic, from NVML."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from accel.machine.clock_reasons import clock_reasons, in_words
from accel.machine.nvml import asked, device_name, opened_nvml

NO_GPU = "No GPU is shown: there is no NVIDIA driver here, or `nvidia-ml-py` is not installed."
ALL_LINKS = 0xFFFFFFFF  # the scope of a field that adds up all NVLinks
PCIE_EVERY = (
    4  # samples between two questions for PCIe traffic where it is no counter: each takes the driver 20 ms
)
WIDE = (2, 3)  # NVML's types of 64 bits; narrower counters of bytes wrap within a second

EXPECTED = 0x1 | 0x2 | 0x100  # idle, clocks set by somebody, a display: they take no speed away unasked


@dataclass(frozen=True)
class GpuLoad:
    """One GPU over the time since the sample before; None is what this GPU or driver does not tell.

    `busy` is the share of time in which some kernel ran, not of the GPU that it filled. `power_w` is the mean since the sample
    before where the GPU counts its energy. Numbered as `nvidia-smi` does. `slowed_by`: "" when nothing holds the clock down.
    """

    index: int
    name: str
    busy: float | None = None
    memory_used_bytes: float | None = None
    memory_bytes: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    sm_mhz: float | None = None
    slowed_by: str = ""
    pcie_in_bytes_s: float | None = None
    pcie_out_bytes_s: float | None = None
    nvlink_in_bytes_s: float | None = None
    nvlink_out_bytes_s: float | None = None


class GpuReader:
    """Asks NVML, opened once until `close`; a question that a GPU does not know is asked once.

    >>> GpuReader().read(time.monotonic())
    (GpuLoad(index=0, name='NVIDIA H100', busy=0.38, …),)
    """

    def __init__(self, nvml: Any | None = None) -> None:
        self._stack = ExitStack()
        self._nvml = nvml if nvml is not None else self._stack.enter_context(opened_nvml())
        count = asked(self._nvml, "nvmlDeviceGetCount") if self._nvml is not None else None
        self._gpus = [_OneGpu(self._nvml, index) for index in range(count or 0)]
        self.notes: tuple[str, ...] = () if self._gpus else (NO_GPU,)

    @property
    def names(self) -> tuple[str, ...]:
        """What the GPUs are called."""
        return tuple(gpu.name for gpu in self._gpus)

    def read(self, time_s: float) -> tuple[GpuLoad, ...]:
        """Every GPU now; rates since the reading before."""
        return tuple(gpu.read(time_s) for gpu in self._gpus)

    def close(self) -> None:
        """Close NVML."""
        self._gpus = []
        self._stack.close()


class _OneGpu:
    def __init__(self, nvml: Any, index: int) -> None:
        self._nvml, self._index = nvml, index
        self._handle = asked(nvml, "nvmlDeviceGetHandleByIndex", index)
        self.name = device_name(nvml, self._handle) if self._handle is not None else f"GPU {index}"
        self._unknown: set[str] = set()
        self._counted: dict[str, tuple[float, float]] = {}
        self._readings = 0
        self._pcie: dict[str, float | None] = {}
        self._limit = self._ask("nvmlDeviceGetEnforcedPowerLimit")

    def read(self, time_s: float) -> GpuLoad:
        rates, memory = self._ask("nvmlDeviceGetUtilizationRates"), self._ask("nvmlDeviceGetMemoryInfo")
        clock = self._ask("nvmlDeviceGetClockInfo", getattr(self._nvml, "NVML_CLOCK_SM", 1))
        traffic = self._traffic(time_s)
        self._readings += 1
        return GpuLoad(
            self._index, self.name,
            busy=rates.gpu / 100 if rates is not None else None,
            memory_used_bytes=float(memory.used) if memory is not None else None,
            memory_bytes=float(memory.total) if memory is not None else None,
            power_w=self._power_w(time_s),
            power_limit_w=self._limit / 1000 if self._limit is not None else None,
            temperature_c=self._ask("nvmlDeviceGetTemperature", getattr(self._nvml, "NVML_TEMPERATURE_GPU", 0)),
            sm_mhz=clock,
            slowed_by=self._slowed_by(),
            **traffic,
        )  # fmt: skip

    def _slowed_by(self) -> str:
        if "reasons" in self._unknown or self._handle is None:
            return ""
        bits = clock_reasons(self._nvml, self._handle)
        if bits is None:
            self._unknown.add("reasons")
        return ", ".join(in_words((bits or 0) & ~EXPECTED))

    def _power_w(self, time_s: float) -> float | None:
        """From the counter of energy, in millijoules; the meter of this moment where there is none, or no reading before."""
        energy = self._ask("nvmlDeviceGetTotalEnergyConsumption")
        mean = self._rate("energy", energy, time_s) if energy is not None else None
        if mean is not None:
            return mean / 1000
        power = self._ask("nvmlDeviceGetPowerUsage")
        return power / 1000 if power is not None else None

    def _traffic(self, time_s: float) -> dict[str, float | None]:
        fields = self._fields()
        found = {
            f"nvlink_{way}_bytes_s": self._rate(f"nvlink {way}", _times(fields.get(f"nvlink {way}"), 1024), time_s)
            for way in ("in", "out")
        }  # fmt: skip
        if "pcie in" in fields:
            return found | {
                f"pcie_{way}_bytes_s": self._rate(f"pcie {way}", fields.get(f"pcie {way}"), time_s)
                for way in ("in", "out")
            }
        if self._readings % PCIE_EVERY == 0:
            out, in_ = (self._ask("nvmlDeviceGetPcieThroughput", direction) for direction in (0, 1))
            self._pcie = {"pcie_in_bytes_s": _times(in_, 1000), "pcie_out_bytes_s": _times(out, 1000)}
        return found | self._pcie

    def _fields(self) -> dict[str, float]:
        """Counters that are asked for together: bytes over PCIe, KiB over all NVLinks."""
        nvml = self._nvml
        wanted = {
            "pcie out": (getattr(nvml, "NVML_FI_DEV_PCIE_COUNT_TX_BYTES", None), 0),
            "pcie in": (getattr(nvml, "NVML_FI_DEV_PCIE_COUNT_RX_BYTES", None), 0),
            "nvlink out": (getattr(nvml, "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX", None), ALL_LINKS),
            "nvlink in": (getattr(nvml, "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX", None), ALL_LINKS),
        }
        known = {
            name: field
            for name, field in wanted.items()
            if field[0] is not None and name not in self._unknown
        }
        if not known:
            return {}
        values = self._ask("nvmlDeviceGetFieldValues", list(known.values()))
        found = {}
        for name, value in zip(known, values if values is not None else (), strict=False):
            if value.nvmlReturn == 0 and value.valueType in WIDE:
                found[name] = float(value.value.ullVal)
            elif self._readings == 0:
                self._unknown.add(name)
        return found

    def _rate(self, name: str, counter: float | None, time_s: float) -> float | None:
        """What a counter grew by each second; None at first, and where it began anew."""
        if counter is None:
            self._counted.pop(name, None)
            return None
        before, self._counted[name] = self._counted.get(name), (counter, time_s)
        if before is None or counter < before[0] or time_s <= before[1]:
            return None
        return (counter - before[0]) / (time_s - before[1])

    def _ask(self, question: str, *arguments: Any) -> Any | None:
        if question in self._unknown or self._handle is None:
            return None
        answer = asked(self._nvml, question, self._handle, *arguments)
        if answer is None and self._readings == 0:
            self._unknown.add(question)
        return answer


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
