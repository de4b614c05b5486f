"""Which GPUs to use together, why, and what CUDA then calls them."""

from __future__ import annotations

import itertools
import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError
from accel.machine.topology.links import Link
from accel.machine.topology.placing import places_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel.machine.topology.device_links import Device, DeviceLinks

MOST_PAIRS = 10_000_000  # in all groups together, some tenths of a second: 16 GPUs have at most 400,000 in those of a size


@dataclass(frozen=True)
class GpuChoice:
    """GPUs to use together, with the link of the two that are joined worst and the reason.

    >>> print(topology.best_gpus(2))
    Best 2: GPU0 and GPU3 share two NVLinks; … With CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,3, GPU0 is cuda:0, …
    """

    indices: tuple[int, ...]
    slowest: Link
    total_gb_per_s: float
    reason: str
    equals: int = 0  # other groups that are as well joined

    @property
    def visible(self) -> str:
        """The value for CUDA_VISIBLE_DEVICES, by the numbers of `nvidia-smi`."""
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
        many = (
            f" {self.equals} other group{'s are' if self.equals > 1 else ' is'} as well joined."
            if self.equals
            else ""
        )
        variables = " ".join(f"{name}={value}" for name, value in self.as_env.items())
        return f"Best {len(self.indices)}: {self.reason}{many} With {variables}, {self.renumbering}."

    def to_dict(self) -> dict[str, Any]:
        """The choice as plain values."""
        return {
            "gpus": list(self.indices), "slowest": self.slowest.label, "total_gb_per_s": self.total_gb_per_s,
            "reason": self.reason, "equals": self.equals, "env": self.as_env,
        }  # fmt: skip


def best_gpus(topology: DeviceLinks, count: int) -> GpuChoice:
    """The group of that size whose slowest link is best, then whose links carry most in sum.

    Of equals it is one that lies on the fewest NUMA nodes, and of those the one with the lowest numbers. Every group is looked
    at: 70 of four among eight. On this machine, only GPUs that CUDA_VISIBLE_DEVICES leaves are chosen. Raises AccelError where
    there are not so many.
    """
    gpus = topology.usable_gpus
    try:
        count = operator.index(count)
    except TypeError:
        raise AccelError(
            f"best_gpus({count!r})", because="that is no number of GPUs", do="Give a whole one: best_gpus(2)."
        ) from None
    if not 1 <= count <= len(gpus):
        raise AccelError(
            f"{count} GPUs",
            because="; ".join([f"there are {len(gpus)} to choose from", *topology.notes]),
            do=f"Ask for 1 to {len(gpus)}." if gpus else "Use the CPU.",
        )
    if not can_choose(count, len(gpus)):
        raise AccelError(
            f"{count} of {len(gpus)} GPUs",
            because="there are too many groups to look at",
            do="Ask for fewer.",
        )
    chosen, others = _best_groups(topology, gpus, count)
    links = [link for _, _, link in topology.pairs(chosen)]
    total = sum(topology.gb_per_s(a, b) for a, b, _ in topology.pairs(chosen))
    indices = tuple(gpu.index for gpu in chosen)
    return GpuChoice(indices, min(links, default=Link("X")), total, _reason(topology, chosen), others)


def can_choose(count: int, gpus: int) -> bool:
    """Whether there are few enough groups of that size to look at every one: of any size among 20 GPUs, of 4 among 32."""
    return math.comb(gpus, count) * math.comb(count, 2) <= MOST_PAIRS


def _best_groups(topology: DeviceLinks, gpus: Sequence[Device], count: int) -> tuple[list[Device], int]:
    """The best group, and how many others are as well joined; 12,870 groups of eight take some 10 ms as arrays."""
    import numpy as np

    table = [[topology.link(a.name, b.name) for b in gpus] for a in gpus]
    near = np.array([[link.nearness for link in row] for row in table])
    rates = np.array([[0.0 if a is b else topology.gb_per_s(a, b) for b in gpus] for a in gpus])
    groups = np.array(list(itertools.combinations(range(len(gpus)), count)))
    slowest = np.full(len(groups), Link("X").nearness)
    sum_of_rates, sum_of_nearness = np.zeros(len(groups)), np.zeros(len(groups))
    for first, second in itertools.combinations(range(count), 2):
        pair = groups[:, first], groups[:, second]
        slowest = np.minimum(slowest, near[pair])
        sum_of_rates += rates[pair]
        sum_of_nearness += near[pair]
    places = [{device.name for device in place.devices} for place in places_of(topology)]
    at = np.array([next(n for n, names in enumerate(places) if gpu.name in names) for gpu in gpus])
    nodes = (np.diff(np.sort(at[groups], axis=1), axis=1) > 0).sum(axis=1)
    best = np.arange(len(groups))
    for rating in (slowest, sum_of_rates.round(6), sum_of_nearness):  # equal sums differ in their last place
        best = best[rating[best] == rating[best].max()]
    chosen = groups[best[np.argmin(nodes[best])]]
    return [gpus[number] for number in chosen], len(best) - 1


def _reason(topology: DeviceLinks, chosen: Sequence[Device]) -> str:
    """What joins the chosen ones, and what another choice would have to go through."""
    if len(chosen) == 1:
        return f"{chosen[0].name}, alone."
    names = _listed([gpu.name for gpu in chosen])
    pairs = list(topology.pairs(chosen))
    slowest = min(link for _, _, link in pairs)
    if len(chosen) == 2:
        joined = f"{names} {_joined(slowest)}"
    elif all(link == slowest for _, _, link in pairs):
        joined = f"{names}, of which every two {_joined(slowest)}"
    else:
        first, second, _ = next(pair for pair in pairs if pair[2] == slowest)
        joined = f"{names}, of which the farthest two, {first.name} and {second.name}, {_joined(slowest)}"
    others = [gpu for gpu in topology.usable_gpus if gpu not in chosen]
    crossing = [(a, b, topology.link(a.name, b.name)) for a in chosen for b in others]
    if not crossing:
        return f"{joined}."
    first, second, worst = min(crossing, key=lambda pair: pair[2])
    return f"{joined}; {first.name} and {second.name} {_joined(worst)}." if worst < slowest else f"{joined}."


def _joined(link: Link) -> str:
    """What two devices do that are joined by that link."""
    if link.nvlinks:
        return f"share {link}"
    verbs = {"PIX": "meet at", "SYS": "cross"}
    return f"{verbs.get(link.label, 'reach each other through')} {link}"


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
