"""The names of Arm cores: /proc/cpuinfo gives numbers for who designed a core and which one it is, and no name."""

from __future__ import annotations

import re

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
