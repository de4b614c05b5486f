"""What is known of the processors: model, cores, sockets, caches, kinds of cores, instruction sets, highest clock.

Everything is read below a root directory, so that a copied tree of another machine reads the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from accel.machine.core_kinds import CoreKind, core_kinds
from accel.machine.cpu_lists import cpu_list, parse_cpu_list
from accel.machine.cpu_tree import CpuTree, read_cpu_tree
from accel.machine.system_files import size_text, text_of

__all__ = ["ISA_OF_INTEREST", "Cache", "Cpu", "cpu_list", "isa_in", "parse_cpu_list", "read_cpu"]

ISA_OF_INTEREST = (
    "avx2", "fma", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni",
    "amx_tile", "amx_int8", "amx_bf16", "amx_fp16", "asimd", "asimdhp", "sve", "sve2", "bf16", "svebf16", "i8mm", "sme",
)  # fmt: skip
"""Instruction sets that change which kernels torch and oneDNN choose, by their names in /proc/cpuinfo."""


@dataclass(frozen=True)
class Cache:
    """One kind of cache: how large one is, and how many of them there are."""

    name: str
    bytes_each: int
    count: int

    def __str__(self) -> str:
        return f"{self.name} {self.count} × {size_text(self.bytes_each)}"


@dataclass(frozen=True)
class Cpu:
    """The processors below one root; a count that the system does not tell is 0, a name is empty.

    `cores` are the CPUs of each core (several: its SMT siblings), `cache_groups` those that share each last-level cache, and
    `core_kinds` is empty where all cores are alike.
    """

    model: str = ""
    isa: tuple[str, ...] = ()
    logical_cores: int = 0
    sockets: int = 0
    cores: tuple[tuple[int, ...], ...] = ()
    caches: tuple[Cache, ...] = ()
    cache_groups: tuple[tuple[int, ...], ...] = ()
    core_kinds: tuple[CoreKind, ...] = ()
    highest_clock_mhz: float | None = None
    counted_cores: int = 0  # where only their number is known, not which CPUs they are

    @property
    def physical_cores(self) -> int:
        """Cores, threads of one core counted once."""
        return len(self.cores) or self.counted_cores


def read_cpu(root: Path | str = "/", tree: CpuTree | None = None) -> Cpu:
    """The processors below `root`; `tree`: its logical CPUs where they have been read already.

    >>> read_cpu().logical_cores
    2
    """
    tree = read_cpu_tree(root) if tree is None else tree
    cpuinfo = text_of(Path(root) / "proc/cpuinfo")
    clock = max((cpu.speed for cpu in tree.cpus), default=0)
    return Cpu(
        model=model_in(cpuinfo),
        isa=isa_in(cpuinfo),
        logical_cores=len(tree.cpus),
        sockets=len({cpu.socket for cpu in tree.cpus if cpu.socket is not None}),
        cores=_cores(tree),
        caches=_caches(tree),
        cache_groups=_cache_groups(tree),
        core_kinds=core_kinds(tree),
        highest_clock_mhz=clock / 1000 if clock else None,
    )


def isa_in(cpuinfo: str) -> tuple[str, ...]:
    """The instruction sets of interest that a flags line lists (Arm and s390 call it Features)."""
    flags = re.search(r"^(?:flags|Features|features)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    present = set(flags.group(1).split()) if flags else set()
    return tuple(name for name in ISA_OF_INTEREST if name in present)


def model_in(cpuinfo: str) -> str:
    """x86's model name, else Arm's by its numbers, else what POWER, MIPS, LoongArch, RISC-V or s390 write, else a board's."""
    for name in ("model name", None, "cpu", "cpu model", "Model Name", "uarch", "Model"):
        found = re.search(rf"^{name}[ \t]*:[ \t]*(\S.*)$", cpuinfo, re.MULTILINE) if name else None
        model = found.group(1).strip() if found else "" if name else arm_model(cpuinfo)
        if model:
            return model
    if found := re.search(r"^isa[ \t]*:[ \t]*(rv\d+\w+)", cpuinfo, re.MULTILINE):
        return f"RISC-V {found[1].split('_')[0]}"
    if found := re.search(r"\bmachine = (\d{4})\b", cpuinfo):
        return f"IBM {Z.get(found[1], 'Z')} (machine {found[1]})"
    return ""


Z = {
    "2964": "z13", "2965": "z13s", "3906": "z14", "3907": "z14 ZR1", "8561": "z15", "8562": "z15 T02", "3931": "z16",
    "3932": "z16 A02", "9175": "z17",
}  # fmt: skip
"""IBM's mainframes by machine type."""


def _cores(tree: CpuTree) -> tuple[tuple[int, ...], ...]:
    """The CPUs of each core: by its siblings, else by the numbers of socket and core."""
    cores: dict[object, list[int]] = {}
    for cpu in tree.cpus:
        if cpu.siblings or cpu.core is not None:
            cores.setdefault(cpu.siblings or (cpu.socket, cpu.core, "numbers"), []).append(cpu.number)
    return tuple(sorted(tuple(cpus) for cpus in cores.values()))


def _caches(tree: CpuTree) -> tuple[Cache, ...]:
    """Group by name and size; a cache shared by several cores counts once."""
    found: dict[tuple[str, int], set[tuple[int, ...]]] = {}
    for cache in (cache for cpu in tree.cpus for cache in cpu.caches if cache.size_bytes):
        found.setdefault((cache.name, cache.size_bytes), set()).add(cache.shared)
    return tuple(Cache(name, size, len(sharers)) for (name, size), sharers in sorted(found.items()))


def _cache_groups(tree: CpuTree) -> tuple[tuple[int, ...], ...]:
    online = {cpu.number for cpu in tree.cpus}
    shared = {cache.shared for cpu in tree.cpus if (cache := cpu.last_cache)}
    return tuple(sorted(tuple(cpu for cpu in group if cpu in online) for group in shared))


DESIGNERS = {
    0x41: "Arm", 0x42: "Broadcom", 0x43: "Cavium", 0x46: "Fujitsu", 0x48: "HiSilicon", 0x4E: "NVIDIA", 0x50: "APM",
    0x51: "Qualcomm", 0x53: "Samsung", 0x56: "Marvell", 0x61: "Apple", 0x6D: "Microsoft", 0x70: "Phytium", 0xC0: "Ampere",
}  # fmt: skip

CORES = {
    0x41: {
        0xD03: "Cortex-A53", 0xD04: "Cortex-A35", 0xD05: "Cortex-A55", 0xD07: "Cortex-A57", 0xD08: "Cortex-A72",
        0xD09: "Cortex-A73", 0xD0A: "Cortex-A75", 0xD0B: "Cortex-A76", 0xD0C: "Neoverse-N1", 0xD0D: "Cortex-A77",
        0xD40: "Neoverse-V1", 0xD41: "Cortex-A78", 0xD42: "Cortex-A78AE", 0xD44: "Cortex-X1", 0xD46: "Cortex-A510",
        0xD47: "Cortex-A710", 0xD48: "Cortex-X2", 0xD49: "Neoverse-N2", 0xD4A: "Neoverse-E1", 0xD4B: "Cortex-A78C",
        0xD4D: "Cortex-A715", 0xD4E: "Cortex-X3", 0xD4F: "Neoverse-V2", 0xD80: "Cortex-A520", 0xD81: "Cortex-A720",
        0xD82: "Cortex-X4", 0xD83: "Neoverse-V3AE", 0xD84: "Neoverse-V3", 0xD85: "Cortex-X925", 0xD87: "Cortex-A725",
        0xD8E: "Neoverse-N3",
    },
    0x43: {0x0A1: "ThunderX", 0x0AF: "ThunderX2"},
    0x46: {0x001: "A64FX"},
    0x48: {0xD01: "Kunpeng 920", 0xD02: "TaiShan-v120"},
    0x4E: {0x004: "Carmel"},
    0x50: {0x000: "X-Gene"},
    0x51: {0x001: "Oryon", 0xC00: "Falkor"},
    0x61: {
        0x022: "M1 Icestorm", 0x023: "M1 Firestorm", 0x024: "M1 Pro Icestorm", 0x025: "M1 Pro Firestorm",
        0x028: "M1 Max Icestorm", 0x029: "M1 Max Firestorm", 0x032: "M2 Blizzard", 0x033: "M2 Avalanche",
        0x034: "M2 Pro Blizzard", 0x035: "M2 Pro Avalanche", 0x038: "M2 Max Blizzard", 0x039: "M2 Max Avalanche",
    },
    0x6D: {0xD49: "Azure Cobalt 100"},
    0xC0: {0xAC3: "Ampere-1", 0xAC4: "Ampere-1a"},
}  # fmt: skip
"""Core numbers by designer, as in Arm's reference manuals and util-linux (sys-utils/lscpu-arm.c)."""


def arm_model(cpuinfo: str) -> str:
    """The kinds of cores in an Arm machine's /proc/cpuinfo by name; "" where it speaks of no Arm core.

    >>> arm_model("CPU implementer : 0x41\\nCPU part : 0xd0c")
    'Arm Neoverse-N1'
    """
    designers = re.findall(r"^CPU implementer\s*:\s*0x([0-9a-fA-F]{1,2})\s*$", cpuinfo, re.MULTILINE)
    parts = re.findall(r"^CPU part\s*:\s*0x([0-9a-fA-F]{1,3})\s*$", cpuinfo, re.MULTILINE)
    kinds = dict.fromkeys((int(who, 16), int(what, 16)) for who, what in zip(designers, parts, strict=False))
    return " + ".join(_name(*kind) for kind in kinds)


def _name(designer: int, core: int) -> str:
    who = DESIGNERS.get(designer, f"Arm core of designer {designer:#04x}")
    what = CORES.get(designer, {}).get(core, f"part {core:#05x}")
    return what if what.startswith(who) else f"{who} {what}"
