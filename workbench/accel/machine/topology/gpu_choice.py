"""Which GPUs to use together, why, and what CUDA then calls them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError
from accel.machine.topology.links import Link

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel.machine.topology.devices import Device
    from accel.machine.topology.topology import Topology

MOST_GROUPS = 200_000  # 16 GPUs have at most 12,870 of a size


@dataclass(frozen=True)
class GpuChoice:
    """GPUs to use together, with the link of the two that are joined worst and the reason.

    >>> print(topology.best_gpus(2))
    Best 2: GPU0 and GPU3 (share two NVLinks). …  CUDA_VISIBLE_DEVICES=0,3
    """

    indices: tuple[int, ...]
    slowest: Link
    total_gb_per_s: float
    reason: str
    equals: int = 0  # other groups that are as good

    @property
    def visible(self) -> str:
        """The value for CUDA_VISIBLE_DEVICES."""
        return ",".join(map(str, self.indices))

    @property
    def as_env(self) -> dict[str, str]:
        """The variables to set before CUDA is used; the order is that of `nvidia-smi`, which is not CUDA's own."""
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": self.visible}

    @property
    def renumbering(self) -> str:
        """What torch calls each of them then."""
        return ", ".join(f"GPU{index} is cuda:{number}" for number, index in enumerate(self.indices))

    def __str__(self) -> str:
        same = (
            f" {self.equals} other group{'s are' if self.equals > 1 else ' is'} as good."
            if self.equals
            else ""
        )
        variables = " ".join(f"{name}={value}" for name, value in self.as_env.items())
        return f"Best {len(self.indices)}: {self.reason}{same} {variables} ({self.renumbering})."

    def to_dict(self) -> dict[str, Any]:
        """The choice as plain values."""
        return {
            "gpus": list(self.indices), "slowest": self.slowest.label, "total_gb_per_s": self.total_gb_per_s,
            "reason": self.reason, "equals": self.equals, "env": self.as_env,
        }  # fmt: skip


def best_gpus(topology: Topology, count: int) -> GpuChoice:
    """The group of that size whose slowest link is best, then whose links carry most in sum; the lowest numbers of equals.

    Every group is looked at: 70 of four among eight. Raises AccelError where there are not so many GPUs.
    """
    gpus = topology.gpus
    if not 1 <= count <= len(gpus):
        raise AccelError(
            f"{count} GPUs",
            because=f"there are {len(gpus)}",
            do=f"Ask for 1 to {len(gpus)}." if gpus else "Use the CPU.",
        )
    if math.comb(len(gpus), count) > MOST_GROUPS:
        raise AccelError(
            f"{count} of {len(gpus)} GPUs",
            because="there are too many groups to look at",
            do="Ask for fewer.",
        )
    rated = [(_rating(topology, group), group) for group in itertools.combinations(gpus, count)]
    best = max(rating for rating, _ in rated)
    equal = [group for rating, group in rated if rating == best]
    chosen = equal[0]
    links = [link for _, _, link in topology.pairs(chosen)]
    slowest = min(links, default=Link("X"))
    total = sum(topology.gb_per_s(link) for link in links)
    indices = tuple(gpu.index for gpu in chosen)
    return GpuChoice(indices, slowest, total, _reason(topology, chosen), len(equal) - 1)


def _rating(topology: Topology, group: Sequence[Device]) -> tuple[int, float, int]:
    links = [link for _, _, link in topology.pairs(group)]
    nearness = [link.nearness for link in links]
    return min(nearness, default=0), sum(map(topology.gb_per_s, links)), sum(nearness)


def _reason(topology: Topology, chosen: Sequence[Device]) -> str:
    """What joins the chosen ones, and what another choice would have to go through."""
    if len(chosen) == 1:
        return f"{chosen[0].name}, alone."
    names = _listed([gpu.name for gpu in chosen])
    pairs = list(topology.pairs(chosen))
    slowest = min(link for _, _, link in pairs)
    if len(chosen) == 2:
        joined = f"{names} {'share' if slowest.nvlinks else 'meet at'} {slowest}"
    else:
        first, second, _ = next(pair for pair in pairs if pair[2] == slowest)
        joined = f"{names}, of which no two are farther apart than {first.name} and {second.name} ({slowest})"
    others = [gpu for gpu in topology.gpus if gpu not in chosen]
    crossing = [(a, b, topology.link(a.name, b.name)) for a in chosen for b in others]
    if not crossing:
        return f"{joined}."
    first, second, worst = min(crossing, key=lambda pair: pair[2])
    if not worst < slowest:
        return f"{joined}."
    return f"{joined}; {first.name} and {second.name} would go through {worst}."


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
