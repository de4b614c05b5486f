"""Problems of where threads are, in words, each with what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from accel.machine.affinity.thread_places import ThreadPlace
from accel.machine.cpu_lists import cpu_list
from accel.machine.usable_cores import UsableCores
from accel.units import counted, percent

if TYPE_CHECKING:
    from accel.machine.affinity.thread_places import WhereThreadsAre

FULL = 0.8  # of a CPU that its busy threads use together: they would use more if they had it


def affinity_notes(found: WhereThreadsAre) -> list[str]:
    """Narrowed masks, threads that take turns, over-subscription, crossed nodes and shared cores.

    >>> affinity_notes(accel.affinity())
    []
    """
    checks = (_narrowed, _same_cpu, _take_turns, _oversubscribed, _crossing, _shared)
    return [note for check in checks if (note := check(found))]


def _narrowed(found: WhereThreadsAre) -> str:
    """A main thread that may use one CPU only, where the machine has more: what it starts later inherits that.

    A rank of one thread is pinned so on purpose; the other notes are on ranks.
    """
    narrow = [each for each in _mains(found) if len(each.allowed) == 1 and each.kind != "rank"]
    if not narrow or len(found.cpu_map.cpus) == 1:
        return ""
    who = _list(dict.fromkeys(each.group for each in narrow))
    why = ", ".join(name for name, _ in found.environment)
    did_it = f" ({why} did it)" if why else ""
    if not why and all(each.kind == "loader worker" for each in narrow):
        return (
            f"Narrowed to one CPU: {who}. Loader workers inherit the mask of the process that starts them: put their loop in "
            "`with accel.loader_affinity(cpus):`, after `import accel`, with the CPUs that they shall have."
        )
    if why:
        return (
            f"Narrowed to one CPU{did_it}: {who}. Loader workers inherit it: put their loop in `with accel.loader_affinity():`, "
            "after `import accel`, or unset the variable."
        )
    return (
        f"Narrowed to one CPU: {who}. Start Python with more (taskset, the job's or the container's setting)."
    )


def _same_cpu(found: WhereThreadsAre) -> str:
    """Processes that must share one CPU, as ranks do that were all bound to the first core."""
    bound: dict[tuple[int, ...], list[str]] = {}
    for each in _mains(found):
        if len(each.allowed) == 1:
            bound.setdefault(each.allowed, []).append(each.group)
    for allowed, groups in bound.items():
        if len(groups) > 1 and len(found.cpu_map.cpus) > 1:
            return (
                f"{_list(groups)} may use CPU {cpu_list(allowed)} only, and take turns on it: give each a CPU of its own, "
                "as allocate(ranks, threads) does."
            )
    return ""


def _take_turns(found: WhereThreadsAre) -> str:
    """Busy threads that were last on the same CPU and together used it up; after two looks only."""
    for cpu in found.cpu_map.cpus:
        busy = [each for each in found.threads if each.cpu == cpu.number and each.busy and each.is_busy]
        if (
            len(busy) > 1
            and sum(each.busy or 0 for each in busy) >= FULL
            and max(each.busy or 0 for each in busy) < FULL
        ):
            who = _list(f"{each.group}'s {each.what} {percent(each.busy or 0, 0)}" for each in busy[:4])
            more = f" and {len(busy) - 4} more" if len(busy) > 4 else ""
            return f"{len(busy)} busy threads take turns on CPU {cpu.number}: {who}{more}."
    return ""


def _oversubscribed(found: WhereThreadsAre) -> str:
    """More threads that compute than CPUs they may use: torch's own, and one for each loader worker.

    Workers that were idle between two looks want no CPU, and torch wants as many as it has threads only while it computes.
    """
    own = next((each.pid for each in _mains(found)), 0)
    mask = {
        cpu for each in found.threads if each.pid == own for cpu in each.allowed
    }  # OpenMP gives each thread its own
    workers = sum(
        each.kind == "loader worker" and "'s" not in each.group and _may_compute(each)
        for each in _mains(found)
    )
    computes = any(_may_compute(each) for each in found.threads if each.pid == own)
    wanted = (found.torch_threads or 0) * computes + workers
    usable = replace(found.usable or UsableCores(len(found.cpu_map.cpus)), allowed=tuple(sorted(mask)))
    if not found.torch_threads or not mask or max(wanted, found.torch_threads) <= usable.count:
        return ""
    wanted = max(wanted, found.torch_threads)
    loaders = f" and {counted(workers, 'loader worker')}" if workers else ""
    threads = f"{counted(found.torch_threads, 'thread')} of torch"
    why = f" ({usable.limit})" if usable.count < len(mask) else ""
    return (
        f"Over-subscribed: {threads}{loaders} want {wanted} CPUs, and {usable.count} may be used{why}. "
        f"Use fewer{' of either' if workers else ''}."
    )


def _crossing(found: WhereThreadsAre) -> str:
    """Compute threads of one process on two NUMA nodes, and whether they would fit into one."""
    cpu_map = found.cpu_map
    for group in dict.fromkeys(each.group for each in found.threads):
        busy = [each.cpu for each in found.threads if each.group == group and each.is_busy]
        nodes = cpu_map.nodes_of(busy)
        if len(nodes) < 2:
            continue
        cores = {
            node: len(cpu_map.cores_of(cpu.number for cpu in cpu_map.cpus if cpu.numa_node == node)) for node in nodes
        }  # fmt: skip
        if len(busy) <= max(cores.values()):
            return f"{group} runs on several NUMA nodes: pin it to one, as allocate(ranks, threads) does."
        return (
            f"{group} computes with {len(busy)} threads on {len(nodes)} NUMA nodes, more than one of them has cores for; "
            f"memory of another node is farther away. One rank a node avoids that: allocate({len(nodes)}, {min(cores.values())})."
        )
    return ""


def _shared(found: WhereThreadsAre) -> str:
    """Two threads that are busy on the two halves of one core."""
    busy = {each.cpu for each in found.threads if each.is_busy}
    cores = [tuple(sorted(busy & set(siblings))) for siblings in found.cpu_map.cores_of(busy)]
    shared = sorted(core for core in cores if len(core) > 1)
    if not shared:
        return ""
    more = f" (so are {len(shared) - 1} more pairs)" if len(shared) > 1 else ""
    return f"CPUs {_list(map(str, shared[0]))} are one core and both compute{more}: use as many threads as cores."


def _may_compute(thread: ThreadPlace) -> bool:
    """Whether it was busy between two looks; one look does not tell, so it may be."""
    return thread.busy is None or thread.is_busy


def _mains(found: WhereThreadsAre) -> list[ThreadPlace]:
    return [each for each in found.threads if each.is_main]


def _list(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
