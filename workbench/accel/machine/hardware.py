"""The hardware of a machine in one reading: processors, usable cores, memory, nodes; and what is unknown, and why."""

from __future__ import annotations

import os
import platform
import re
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from accel.machine.cpu import Cpu, isa_in, read_cpu
from accel.machine.cpu_tree import CpuTree, read_cpu_tree
from accel.machine.lscpu import LscpuAnswer, ask_lscpu
from accel.machine.memory import Memory, NumaNode, read_memory, read_numa_nodes
from accel.machine.system_files import text_of
from accel.machine.usable_cores import UsableCores, read_usable_cores

Unknowns = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Hardware:
    """What a machine is made of. `unknown` are pairs: what the system does not report, and why, or what reported it instead."""

    cpu: Cpu
    usable: UsableCores
    memory: Memory
    numa_nodes: tuple[NumaNode, ...] = ()
    load_average: float | None = None
    unknown: Unknowns = ()


def read_hardware(root: Path | str = "/", *, ask_others: bool | None = None) -> Hardware:
    """The hardware below `root`: a pure function of the /sys and /proc that lie there.

    >>> read_hardware().usable.count
    2

    On this machine itself (`ask_others`; default: where `root` is "/"), `lscpu` and then psutil are asked for what is not there.
    """
    ask_others = Path(root) == Path("/") if ask_others is None else ask_others
    tree, lscpu = read_cpu_tree(root), LscpuAnswer()
    if ask_others and not tree.tells_cores:
        lscpu = ask_lscpu()
        tree = lscpu.tree if lscpu.tree.tells_cores else tree
    cpu = read_cpu(root, tree)
    cpu = replace(cpu, model=cpu.model or lscpu.model, isa=cpu.isa or isa_in(f"flags: {lscpu.flags}"))
    usable = read_usable_cores(root, tuple(each.number for each in tree.cpus))
    found = Hardware(cpu, usable, read_memory(root), read_numa_nodes(root, tree), _load_average(root))
    if ask_others:
        found = _asking_psutil(found)
    return replace(found, unknown=_unknowns(found, tree, lscpu) + found.unknown)


def known_cpus(root: Path | str = "/") -> CpuTree:
    """The logical CPUs from /sys, or of this machine from `lscpu` where /sys does not tell which belong together."""
    tree = read_cpu_tree(root)
    if tree.tells_cores or Path(root) != Path("/"):
        return tree
    other = _tree_of_lscpu()
    return other if other.tells_cores else tree


@lru_cache(maxsize=1)
def _tree_of_lscpu() -> CpuTree:
    """Asked once: a live core map asks every second, and three programs each time would be what it shows."""
    return ask_lscpu().tree


def _asking_psutil(found: Hardware) -> Hardware:
    """What macOS and Windows tell through psutil; on Linux only where /sys or /proc is closed."""
    import psutil

    cpu, usable, memory, unknown = found.cpu, found.usable, found.memory, []
    try:
        if not usable.online:
            mask = psutil.Process().cpu_affinity() if hasattr(psutil.Process, "cpu_affinity") else ()
            usable = replace(usable, online=psutil.cpu_count() or 1, allowed=tuple(mask or ()))
            cpu = replace(cpu, logical_cores=usable.online)
            unknown.append(("Cores", f"not reported by {_system('/sys')}; counted by psutil"))
        if not cpu.cores and (physical := psutil.cpu_count(logical=False)):
            cpu = replace(cpu, counted_cores=physical)
        if not memory.total_bytes:
            now, swap = psutil.virtual_memory(), psutil.swap_memory()
            memory = replace(memory, total_bytes=now.total, available_bytes=now.available)
            memory = replace(memory, swap_bytes=swap.total, swap_free_bytes=swap.free)
            unknown.append(("Memory", f"not reported by {_system('/proc')}; from psutil"))
        if not cpu.highest_clock_mhz and hasattr(psutil, "cpu_freq") and (clock := psutil.cpu_freq()):
            cpu = replace(cpu, highest_clock_mhz=clock.max or None)
    except (OSError, RuntimeError, psutil.Error) as error:
        unknown.append(("Cores or memory", f"not reported by {_system('/proc')}, and psutil failed: {error}"))
    cpu = replace(cpu, model=cpu.model or platform.processor() or platform.machine())
    load = found.load_average
    if load is None and hasattr(os, "getloadavg"):
        load = os.getloadavg()[0]
    return replace(found, cpu=cpu, usable=usable, memory=memory, load_average=load, unknown=tuple(unknown))


def _load_average(root: Path | str) -> float | None:
    """Processes that wanted to run, on average over the last minute."""
    found = re.match(r"[0-9]{1,6}\.[0-9]{2}\b", text_of(Path(root) / "proc/loadavg"))
    return float(found.group()) if found else None


def _unknowns(found: Hardware, tree: CpuTree, lscpu: LscpuAnswer) -> Unknowns:
    """Each thing that is missing, with the reason; nothing is said of what merely is not there, such as swap."""
    cpu, sys_tells, proc_tells = found.cpu, _system("/sys"), _system("/proc")
    cores = f"not reported by {sys_tells}" + (f"; {lscpu.why_not}" if lscpu.why_not else "")
    mask = f"{proc_tells} tells none: every core counts as usable"
    missing = [
        ("Sockets, cores, caches", "not in /sys; from lscpu", tree.source == "lscpu"),
        ("Sockets, cores", cores, not tree.tells_cores),
        ("Instruction sets", f"{proc_tells} lists none", not cpu.isa),
        ("Caches", f"{sys_tells} has no folders for them, as in some virtual machines", not cpu.caches),
        ("Highest clock", f"{sys_tells} has no cpufreq folders, as in most virtual machines", not cpu.highest_clock_mhz),
        ("NUMA nodes", f"{sys_tells} has no folders for them: one node is assumed", not found.numa_nodes),
        ("Affinity mask", mask, not found.usable.allowed),
        ("Huge pages", f"{sys_tells} has no mode of transparent huge pages", not found.memory.transparent_huge_pages),
        ("Memory", f"{proc_tells} tells none", not found.memory.total_bytes),
    ]  # fmt: skip
    return tuple((what, why) for what, why, is_so in missing if is_so)


def _system(folder: str) -> str:
    """Who ought to tell: the folder on Linux, else the system."""
    return {"darwin": "macOS", "win32": "Windows"}.get(sys.platform, folder)
