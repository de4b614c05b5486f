"""Links between two devices: the labels of `nvidia-smi topo -m`, nearest first, with an estimate of what they carry."""

from __future__ import annotations

import re
from dataclasses import dataclass

PCIE_GB_PER_S = {1: 3.0, 2: 6.0, 3: 12.0, 4: 24.0, 5: 48.0, 6: 96.0}
"""What sixteen lanes carry in one direction, by generation, in GB/s; NCCL reckons with 12 for the third (src/graph/topo.h)."""

LANES = 16
ASSUMED_PCIE = (4, LANES)
ASSUMED_CAPABILITY = (8, 0)
MOST_LINKS_OF_A_GPU = 18  # Hopper and Blackwell; 6 on Volta
NVLINKS_OF_AMPERE = 12  # a GPU with more is at least of the next generation
HOPPER = (9, 0)

SOCKET_GB_PER_S = 10.0
"""Between two processors, as NCCL reckons for Skylake; newer ones carry two to four times that."""

# From the nearest to the farthest, with what the way leads through.
WAYS = {
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches, not the CPU",
    "PHB": "a PCIe host bridge, which is the CPU",
    "NODE": "several PCIe host bridges of one NUMA node",
    "SYS": "the link between sockets or NUMA nodes",
}
OLD_NAMES = {"SOC": "SYS"}
_NVLINKS = re.compile(r"NV([1-9]\d?)", re.ASCII)


@dataclass(frozen=True)
class Link:
    """How two devices are joined, by its label: "X" (the same one), "NV2", "PIX", "PXB", "PHB", "NODE" or "SYS".

    >>> Link("NV2").nvlinks, Link("NV2") > Link("PIX")
    (2, True)

    Links compare by how near they join: more NVLinks, then NVLink before PCIe, then the shorter way over PCIe.
    """

    label: str

    @classmethod
    def is_label(cls, text: str) -> bool:
        """Whether a text is the label of a link; "SOC", of older drivers, is one too."""
        return text == "X" or text in WAYS or text in OLD_NAMES or _NVLINKS.fullmatch(text) is not None

    @classmethod
    def of(cls, text: str) -> Link:
        """The link of a label; old names get their present one."""
        return cls(OLD_NAMES.get(text, text))

    @property
    def nvlinks(self) -> int:
        """How many NVLinks join the two; 0 where it is PCIe."""
        found = _NVLINKS.fullmatch(self.label)
        return int(found[1]) if found else 0

    @property
    def nearness(self) -> int:
        """A number that is larger the nearer the two devices are."""
        if self.label == "X":
            return 1000
        return 100 + self.nvlinks if self.nvlinks else len(WAYS) - list(WAYS).index(self.label)

    def gb_per_s(
        self, *, pcie: tuple[int, int] = ASSUMED_PCIE, capability: tuple[int, int] = ASSUMED_CAPABILITY
    ) -> float:
        """About how much it carries in one direction, in GB/s: an estimate by its kind, not a measurement.

        `pcie` is (generation, lanes).

        >>> Link("NV2").gb_per_s()
        40.0
        """
        if self.label == "X":
            return float("inf")
        if self.nvlinks:
            return self.nvlinks * nvlink_gb_per_s(capability)
        generation, lanes = pcie
        rate = PCIE_GB_PER_S.get(generation, PCIE_GB_PER_S[ASSUMED_PCIE[0]]) * lanes / LANES
        return min(rate, SOCKET_GB_PER_S) if self.label == "SYS" else rate

    def __lt__(self, other: Link) -> bool:
        return self.nearness < other.nearness

    def __str__(self) -> str:
        """In words, to stand behind "share" or "are joined by"."""
        if self.label == "X":
            return "the same device"
        if self.nvlinks:
            return "one NVLink" if self.nvlinks == 1 else f"{_in_words(self.nvlinks)} NVLinks"
        return WAYS[self.label]


def nvlink_gb_per_s(capability: tuple[int, int]) -> float:
    """What one NVLink carries in one direction on GPUs of that compute capability, as NCCL reckons (src/graph/topo.h).

    >>> nvlink_gb_per_s((7, 0))
    20.0
    """
    rates = (((10, 0), 40.1), ((9, 0), 20.6), ((8, 7), 20.0), ((8, 6), 12.0), ((7, 0), 20.0))
    return next((rate for since, rate in rates if capability >= since), 18.0)


def _in_words(number: int) -> str:
    few = (
        "no",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
    )
    return few[number] if number < len(few) else str(number)
