"""The rows of `%accel machine` that speak of processors and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from accel.machine.cpu_lists import cpu_list
from accel.machine.machine import Machine, Rows
from accel.machine.memory import NumaNode
from accel.units import counted

NOT_REPORTED = "not reported by the system"
MOST_NODES = 8  # more are counted, not listed


def processor_rows(machine: Machine) -> Rows:
    """Model, cores and how they belong together, caches, instruction sets.

    >>> processor_rows(accel.machine())[1]
    ('Cores', '2 usable of 2, 2 physical, 1 socket')
    """
    load = NOT_REPORTED if machine.load_average is None else f"{machine.load_average:.2f}"
    return [
        ("Model", machine.cpu_model),
        ("Cores", _cores(machine)),
        *_optional("Kinds of cores", ", ".join(map(str, machine.core_kinds))),
        *_optional("SMT", _siblings(machine.cores)),
        *_optional("Highest clock", machine.highest_clock_mhz and f"{machine.highest_clock_mhz / 1000:.1f} GHz"),
        ("Caches", ", ".join(map(str, machine.caches)) or NOT_REPORTED),
        *_optional("Shared caches", _cache_groups(machine)),
        ("Instruction sets", " ".join(machine.isa) or NOT_REPORTED),
        ("Load average", load),
    ]  # fmt: skip


def memory_rows(machine: Machine) -> Rows:
    """Memory, the container's limit, swap, huge pages and NUMA nodes."""
    memory, limit = machine.memory, ""
    if memory.limit_bytes is not None:
        limit = f"{_gib(memory.limit_bytes)} GiB, the container's; {_gib(memory.limit_used_bytes)} GiB of it in use"
    swap = (
        f"{_gib(memory.swap_free_bytes)} of {_gib(memory.swap_bytes)} GiB free"
        if memory.swap_bytes
        else "none"
    )
    return [
        ("Available", f"{_gib(machine.available_bytes)} of {_gib(machine.memory_bytes)} GiB"),
        *_optional("Limit", limit),
        ("Swap", swap),
        *_optional("Huge pages", _huge_pages(machine)),
        *_nodes(machine.numa_nodes),
    ]  # fmt: skip


def _optional(what: str, value: str | float | None) -> Rows:
    return [(what, str(value))] if value else []


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f}"


def _cores(machine: Machine) -> str:
    usable = f"{machine.usable_cores} usable of {machine.logical_cores}"
    parts = [f"{usable}: {machine.usable.limit}; in all" if machine.usable.limit else f"{usable},"]
    if machine.physical_cores:
        parts.append(f"{machine.physical_cores} physical,")
    if machine.sockets:
        parts.append(f"{counted(machine.sockets, 'socket')},")
    if len(machine.numa_nodes) > 1:
        parts.append(f"{len(machine.numa_nodes)} NUMA nodes")
    return " ".join(parts).removesuffix(",").removesuffix("; in all")


def _siblings(cores: Sequence[tuple[int, ...]]) -> str:
    """Which CPUs are one core: two such cores show by which rule they are numbered."""
    shared = [core for core in cores if len(core) > 1]
    if not shared:
        return ""
    examples = " · ".join("+".join(map(str, core)) for core in shared[:2])
    more = " …" if len(shared) > 2 else ""
    threads = "/".join(str(count) for count in sorted({len(core) for core in shared}))
    some = "" if len(shared) == len(cores) else f" on {len(shared)} of {len(cores)} cores"
    return f"{threads} threads a core{some}: CPUs {examples}{more}"


def _cache_groups(machine: Machine) -> str:
    """Which cores share a last-level cache, where a machine has several: ranks and loaders within one share data fast."""
    core_of = {cpu: core for core in machine.cores for cpu in core}
    sizes = Counter(len({core_of.get(cpu, (cpu,)) for cpu in group}) for group in machine.cache_groups)
    if len(machine.cache_groups) < 2 or max(sizes) < 2 or not machine.caches:
        return ""
    by_size = sorted(sizes.items(), reverse=True)
    groups = " and ".join(f"{counted(count, 'group')} of {counted(size, 'core')}" for size, count in by_size)
    first = cpu_list(machine.cache_groups[0])
    return f"{groups}, each around one {machine.caches[-1].name} (the first: CPUs {first})"


def _huge_pages(machine: Machine) -> str:
    mode = machine.memory.transparent_huge_pages
    reserved = [str(pages) for pages in machine.memory.huge_pages if pages.reserved]
    transparent = [f"transparent: {mode}"] if mode else []
    return "; ".join([*transparent, *(reserved or (["none reserved"] if machine.memory.huge_pages else []))])


def _nodes(nodes: Sequence[NumaNode]) -> Rows:
    """One row a node; a machine of one node has none, for its memory is the machine's."""
    if len(nodes) < 2:
        return []
    rows = [(f"NUMA node {node.number}", str(node)) for node in nodes[:MOST_NODES]]
    more = len(nodes) - MOST_NODES
    return [*rows, ("NUMA nodes", counted(more, "more node"))] if more > 0 else rows
