"""The core map as text: a line a CPU, with who is there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from accel.machine.affinity.affinity import Affinity
from accel.machine.affinity.cpu_map import LogicalCpu
from accel.machine.affinity.thread_places import ThreadPlace
from accel.machine.cpu_lists import cpu_list
from accel.units import percent, table

MANY_CPUS = 32  # with more, neighbours on which no thread ran share a line
LEGEND = "● busy now; the others ran there last"


def text(found: Affinity) -> str:
    """A line a CPU, then the masks, then the problems.

    >>> print(text(accel.affinity()))
    """
    if found.why_not:
        return found.why_not
    rows = _rows(found)
    lines = table(rows)
    if any(each.is_busy for each in found.threads):
        lines.append(LEGEND)
    return "\n".join([*lines, "", *mask_lines(found), *found.notes])


def _rows(found: Affinity) -> list[tuple[str, str, str]]:
    """(CPU, where it is, who is there) by node, socket and core."""
    order = sorted(found.cpu_map.cpus, key=lambda cpu: (cpu.numa_node, cpu.socket, cpu.core, cpu.number))
    who = {cpu.number: who_is_on(found.on(cpu.number)) for cpu in order}
    if len(order) <= MANY_CPUS or not found.threads:
        return [(f"CPU {cpu.number}", _place(cpu), who[cpu.number]) for cpu in order]
    rows = []
    for (where, is_free), cpus in groupby(order, key=lambda cpu: (_part(cpu), not who[cpu.number])):
        together = list(cpus)
        if is_free and len(together) > 1:
            rows.append((f"CPUs {cpu_list([cpu.number for cpu in together])}", where, "–"))
        else:
            rows += [(f"CPU {cpu.number}", _place(cpu), who[cpu.number]) for cpu in together]
    return rows


def mask_lines(found: Affinity) -> list[str]:
    """Where each process may run; processes that may use the same CPUs in one line."""
    by_mask: dict[str, list[str]] = {}
    for group, cpus in found.masks:
        by_mask.setdefault(cpus, []).append(group)
    return [
        f"{', '.join(groups)} may use CPU{'' if cpus.isdecimal() else 's'} {cpus}"
        for cpus, groups in by_mask.items()
    ]


def who_is_on(places: Sequence[ThreadPlace]) -> str:
    """Threads of one kind together: "rank 0: ● main thread 98 %, 2 × OpenMP thread; loader worker 1: main thread"."""
    groups: dict[str, dict[str, list[ThreadPlace]]] = {}
    for each in places:
        groups.setdefault(each.group, {}).setdefault(each.what, []).append(each)
    return "; ".join(
        f"{group}: {', '.join(_counted(what, own) for what, own in kinds.items())}"
        for group, kinds in groups.items()
    )


def busy_text(places: Sequence[ThreadPlace]) -> str:
    """How much of a CPU the busy ones among these threads used together, "" after one look."""
    shares = [each.busy for each in places if each.is_busy and each.busy is not None]
    return f" {percent(sum(shares), 0)}" if shares else ""


def _counted(what: str, places: list[ThreadPlace]) -> str:
    named = what if len(places) == 1 else f"{len(places)} × {what}"
    return f"● {named}{busy_text(places)}" if any(each.is_busy for each in places) else named


def _part(cpu: LogicalCpu) -> str:
    return f"node {cpu.numa_node}, socket {cpu.socket}"


def _place(cpu: LogicalCpu) -> str:
    others = [number for number in cpu.siblings if number != cpu.number]
    shared = [f"with CPU {', '.join(map(str, others))}"] if others else []
    return ", ".join([_part(cpu), f"core {cpu.core}", *shared])
