"""How NVLinks join the GPUs of a topology: by pairs, or all of a group by way of NVSwitch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.machine.topology.device_links import Device
from accel.machine.topology.links import MOST_LINKS_OF_A_GPU, Link
from accel.machine.topology.placing import components

if TYPE_CHECKING:
    from accel.machine.topology.device_links import DeviceLinks


@dataclass(frozen=True)
class NvSwitch:
    """GPUs of which each reaches every other with all of its NVLinks; `fewer` are (GPU, its NVLinks) where some are down."""

    gpus: tuple[Device, ...]
    nvlinks: int
    fewer: tuple[tuple[Device, int], ...] = ()

    def __str__(self) -> str:
        fewer = "".join(f"; {gpu.name} has only {count}" for gpu, count in self.fewer)
        return f"NVSwitch: {listed(self.gpus)}, each with {self.nvlinks} NVLinks, and with all of them to any other{fewer}"


@dataclass(frozen=True)
class NvLinks:
    """The pairs that NVLinks join directly, and the groups behind switches."""

    pairs: tuple[tuple[Device, Device, Link], ...]
    switches: tuple[NvSwitch, ...]

    def __str__(self) -> str:
        lines = [str(switch) for switch in self.switches]
        for count in sorted({link.nvlinks for *_, link in self.pairs}, reverse=True):
            joined = [f"{a.name}–{b.name}" for a, b, link in self.pairs if link.nvlinks == count]
            words = str(Link(f"NV{count}"))
            lines.append(f"{words[0].upper()}{words[1:]}: {', '.join(joined)}")
        return "\n".join(lines)


def nvlinks_of(topology: DeviceLinks) -> NvLinks:
    """The NVLinks of a topology.

    A group that is joined alike by more links than any GPU has needs a switch: eight GPUs with NV18 between every two. Four
    with NV6 do not, for three times six are the eighteen that each has. Where some links of a GPU are down, it reaches every
    other by those that are left.
    """
    joined = [(a, b, link) for a, b, link in topology.pairs() if link.nvlinks]
    groups = components(topology.gpus, lambda a, b: topology.link(a.name, b.name).nvlinks > 0)
    switches = [switch for group in groups if (switch := _switch_of(topology, group))]
    behind = {gpu.name for switch in switches for gpu in switch.gpus}
    return NvLinks(tuple(pair for pair in joined if pair[0].name not in behind), tuple(switches))


def _switch_of(topology: DeviceLinks, group: list[Device]) -> NvSwitch | None:
    """The switch of a group: any two are joined by as many links as the one with fewer has."""
    pairs = list(topology.pairs(group))
    own = {gpu.name: 0 for gpu in group}
    for a, b, link in pairs:
        own[a.name], own[b.name] = max(own[a.name], link.nvlinks), max(own[b.name], link.nvlinks)
    most = max(own.values())
    is_alike = all(link.nvlinks == min(own[a.name], own[b.name]) for a, b, link in pairs)
    if not is_alike or most * (len(group) - 1) <= MOST_LINKS_OF_A_GPU:
        return None
    return NvSwitch(tuple(group), most, tuple((gpu, own[gpu.name]) for gpu in group if own[gpu.name] < most))


def listed(gpus: tuple[Device, ...]) -> str:
    """Names of GPUs, short where their numbers run on.

    >>> listed(topology.gpus)
    'GPU0–GPU7'
    """
    numbers = [gpu.index for gpu in gpus]
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{gpus[0].name}–{gpus[-1].name}"
    return ", ".join(gpu.name for gpu in gpus)
