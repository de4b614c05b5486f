"""The core map with who is where: what `%accel affinity` shows, with what is wrong in words."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from accel import html_parts
from accel.html_parts import Markup, text
from accel.machine.affinity.cpu_map import CpuMap, LogicalCpu, read_cpu_map
from accel.machine.affinity.thread_places import ThreadPlace, groups_here, read_threads
from accel.machine.cpu import cpu_list

BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")


@dataclass(frozen=True)
class Affinity:
    """The CPUs of this machine, the threads of this notebook and of its workers on them, and what is amiss.

    >>> print(accel.affinity())
    """

    cpu_map: CpuMap
    threads: tuple[ThreadPlace, ...]
    torch_threads: int | None = None
    environment: tuple[tuple[str, str], ...] = ()
    told: str = ""  # why there is nothing, where the system does not tell

    @property
    def notes(self) -> list[str]:
        """Over-subscription, shared cores, crossed nodes and narrowed masks, each with what to do."""
        return [note for check in (_narrowed, _oversubscribed, _crossing, _shared) if (note := check(self))]

    def on(self, cpu: int) -> list[ThreadPlace]:
        """The threads that ran on a CPU last, those that run now first."""
        return sorted(
            (each for each in self.threads if each.cpu == cpu), key=lambda each: not each.is_running
        )

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """(CPU, where it is, who is there) by node, socket and core."""
        order = sorted(self.cpu_map.cpus, key=lambda cpu: (cpu.numa_node, cpu.socket, cpu.core, cpu.number))
        return [(f"CPU {cpu.number}", _place(cpu), _who(self.on(cpu.number))) for cpu in order]

    @property
    def masks(self) -> list[tuple[str, str]]:
        """(process, the CPUs its main thread may use), for each process."""
        return [(each.group, cpu_list(each.allowed)) for each in self.threads if each.is_main]

    def __str__(self) -> str:
        if self.told:
            return self.told
        widths = [max(map(len, column)) for column in zip(*self.rows, strict=True)]
        lines = [
            "  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip() for row in self.rows
        ]
        masks = [f"{group} may use CPU {cpus}" for group, cpus in self.masks]
        return "\n".join([*lines, "", *masks, *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """CPUs, threads and notes as plain values."""
        return {
            "cpus": [asdict(cpu) for cpu in self.cpu_map.cpus], "threads": [asdict(each) for each in self.threads],
            "torch_threads": self.torch_threads, "environment": dict(self.environment), "notes": self.notes,
        }  # fmt: skip

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        if self.told:
            return {"text/plain": self.told}
        amiss = [
            Markup(f'<div style="margin-top:4px;font-weight:600">{text(note)}</div>') for note in self.notes
        ]
        table = html_parts.table(["CPU", "where", "threads that ran there last (● now)"], self.rows)
        masks = [html_parts.note(f"{group} may use CPU {cpus}") for group, cpus in self.masks]
        return {"text/plain": str(self), "text/html": str(html_parts.block(table, *amiss, *masks))}


def affinity(ranks: dict[int, int] | None = None, *, root: Path | str = "/") -> Affinity:
    """Where the threads of this process, its loader workers and its ranks (rank → pid) are, read once.

    >>> accel.affinity().masks
    [('this notebook', '0-1')]
    """
    cpu_map = read_cpu_map(root)
    if sys.platform != "linux" or not cpu_map.cpus:
        return Affinity(
            CpuMap(()),
            (),
            told=f"Where threads run is not told by this system ({sys.platform}); Linux tells it.",
        )
    torch = sys.modules.get("torch")
    environment = tuple((name, os.environ[name]) for name in BINDING if os.environ.get(name))
    threads = read_threads(groups_here(ranks))
    return Affinity(cpu_map, threads, torch.get_num_threads() if torch is not None else None, environment)


def _place(cpu: LogicalCpu) -> str:
    parts = [f"node {cpu.numa_node}", f"socket {cpu.socket}", f"core {cpu.core}"]
    others = [number for number in cpu.siblings if number != cpu.number]
    return ", ".join([*parts, *(["with CPU " + ", ".join(map(str, others))] if others else [])])


def _who(places: Sequence[ThreadPlace]) -> str:
    """Threads of one kind together: "this notebook: ● main thread, 2 compute threads; loader worker 1: main thread"."""
    groups: dict[str, dict[str, list[bool]]] = {}
    for each in places:
        groups.setdefault(each.group, {}).setdefault(each.what, []).append(each.is_running)
    return "; ".join(
        f"{group}: {', '.join(_counted(what, running) for what, running in kinds.items())}"
        for group, kinds in groups.items()
    )


def _counted(what: str, running: list[bool]) -> str:
    named = what if len(running) == 1 else f"{len(running)} × {what}"
    return f"● {named}" if any(running) else named


def _narrowed(found: Affinity) -> str:
    """A main thread that may use one CPU only, where the machine has more: what it starts later inherits that."""
    narrow = [each for each in found.threads if each.is_main and len(each.allowed) == 1]
    if not narrow or len(found.cpu_map.cpus) == 1:
        return ""
    who = ", ".join(dict.fromkeys(each.group for each in narrow))
    if not found.environment:
        return f"Narrowed to one CPU: {who}. Start Python with more (taskset, the job's or the container's setting)."
    why = ", ".join(name for name, _ in found.environment)
    return (
        f"Narrowed to one CPU ({why} did it): {who}. Loader workers inherit it: call os.sched_setaffinity in a "
        "worker_init_fn, or unset the variable."
    )


def _oversubscribed(found: Affinity) -> str:
    """More threads that compute than CPUs they may use: torch's own, and one for each loader worker."""
    mask = next((each.allowed for each in found.threads if each.is_main), ())
    workers = sum(each.is_main and each.group.startswith("loader worker") for each in found.threads)
    wanted = (found.torch_threads or 0) + workers
    if not found.torch_threads or not mask or wanted <= len(mask):
        return ""
    loaders = f"{workers} loader worker{'' if workers == 1 else 's'}"
    return (
        f"Over-subscribed: {found.torch_threads} threads of torch and {loaders} want {wanted} CPUs, and "
        f"{len(mask)} may be used. Use fewer of either."
    )


def _crossing(found: Affinity) -> str:
    """Compute threads of one process on two NUMA nodes."""
    for group in dict.fromkeys(each.group for each in found.threads):
        busy = [each.cpu for each in found.threads if each.group == group and each.is_running]
        if len(found.cpu_map.nodes_of(busy)) > 1:
            return f"{group} runs on several NUMA nodes: pin it to one, as allocate(ranks, threads) does."
    return ""


def _shared(found: Affinity) -> str:
    """Two threads that run now on the two halves of one core."""
    busy = {each.cpu for each in found.threads if each.is_running}
    for siblings in found.cpu_map.cores_of(busy):
        if len(busy & set(siblings)) > 1:
            return f"CPUs {' and '.join(map(str, siblings))} are one core and both compute: use as many threads as cores."
    return ""
