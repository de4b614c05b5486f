"""Machine: the hardware and software a measurement was made on, in one frozen value."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from typing import Any

from accel.machine.core_kinds import CoreKind
from accel.machine.cpu import Cache
from accel.machine.gpus import Gpu
from accel.machine.hardware import Unknowns
from accel.machine.memory import Memory, NumaNode
from accel.machine.software import Software
from accel.machine.usable_cores import UsableCores
from accel.shown import Shown, view_of

Rows = list[tuple[str, str]]


@dataclass(frozen=True)
class Machine(Shown):
    """Cores, caches, memory, instruction sets, GPUs and versions, as they were when `read_machine` looked.

    `physical_cores`, `sockets` and `caches` are 0 or empty where the system does not report them; `unknown` says why. `cores`
    are the CPUs of each core, `cache_groups` those that share a last-level cache; `core_kinds` is empty where all are alike.
    Sizes are in bytes, clocks in MHz.

    Examples:
        >>> accel.machine().line     # "AMD EPYC 9V74, 2 of 2 cores, torch 2.15.0, Linux"
        '... of ... cores, ...'
    """

    cpu_model: str
    logical_cores: int
    physical_cores: int
    usable_cores: int
    sockets: int
    numa_nodes: tuple[NumaNode, ...]
    caches: tuple[Cache, ...]
    isa: tuple[str, ...]
    memory_bytes: int
    available_bytes: int
    gpus: tuple[Gpu, ...]
    hidden_gpus: tuple[str, ...]
    os: str
    os_release: str
    python: str
    torch: str | None
    torchvision: str | None
    torch_threads: int | None
    c_compiler: str | None
    python_header: str | None
    openmp_runtime: str | None
    allocator: str | None
    load_average: float | None
    software: Software
    usable: UsableCores
    cores: tuple[tuple[int, ...], ...]
    core_kinds: tuple[CoreKind, ...]
    cache_groups: tuple[tuple[int, ...], ...]
    highest_clock_mhz: float | None
    memory: Memory
    unknown: Unknowns

    def now(self) -> Machine:
        """The same with the load of this minute: it changes, all else is read once."""
        return replace(self, load_average=os.getloadavg()[0]) if hasattr(os, "getloadavg") else self

    @property
    def has_bf16(self) -> bool:
        """Whether the CPU or a GPU multiplies bfloat16 in hardware; emulated, it is slower than fp32."""
        return self.has_cpu_bf16 or any(gpu.has_bf16 for gpu in self.gpus)

    @property
    def has_cpu_bf16(self) -> bool:
        """Whether the CPU itself has bfloat16 instructions."""
        return bool({"avx512_bf16", "amx_bf16", "bf16"} & set(self.isa))

    @property
    def has_cpu_fp16(self) -> bool:
        """Whether the CPU itself has float16 arithmetic; F16C alone only converts."""
        return bool({"avx512_fp16", "amx_fp16", "asimdhp"} & set(self.isa))

    @property
    def has_c_compiler(self) -> bool:
        """Whether there is a compiler for torch.compile's CPU kernels."""
        return self.c_compiler is not None

    @property
    def has_python_header(self) -> bool:
        """Whether Python.h is there, which the code that TorchInductor writes for the CPU includes."""
        return self.python_header is not None

    @property
    def line(self) -> str:
        """The machine in one line, to stand under a measurement."""
        cores = f"{self.usable_cores} of {self.logical_cores} cores"
        gpus = [f"{len(self.gpus)} × {self.gpus[0].name}"] if self.gpus else []
        software = [f"torch {self.torch}"] if self.torch else ["no torch"]
        return ", ".join([self.cpu_model, cores, *gpus, *software, self.os])

    @property
    def groups(self) -> list[tuple[str, Rows]]:
        """(group, its (what, value) rows) in reading order; what the text and the HTML show."""
        groups: list[tuple[str, Rows]] = view_of(self).groups_of(self)
        return groups

    @property
    def facts(self) -> Rows:
        """The rows of all groups."""
        return [row for _, rows in self.groups for row in rows]

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain numbers, strings, lists and dictionaries."""
        values = asdict(self)
        values["not_told"] = values.pop("unknown")  # the key that programs read
        parts = {"gpus": [gpu.to_dict() for gpu in self.gpus], "software": self.software.to_dict()}
        return values | parts | {"line": self.line, "has_bf16": self.has_bf16}
