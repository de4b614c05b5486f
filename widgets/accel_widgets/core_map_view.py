"""What the core map shows of an Affinity: processes with their masks, and who is on each CPU, in the engine's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from accel.machine.affinity.cpu_map import core_layout
from accel.machine.cpu_lists import cpu_list
from accel.views.affinity.core_map_html import colour_of
from accel.views.affinity.core_map_text import busy_text, who_is_on

if TYPE_CHECKING:
    from accel.machine.affinity import Affinity, ThreadPlace
    from accel.machine.affinity.processes_here import ProcessHere

MOST_ROOMY = 32  # CPUs that are drawn with room for who is there in words
STEPS = 20  # a share is shown to 5 %: it trembles by less, and what is not seen is not sent


def core_map_traits(found: Affinity) -> dict[str, Any]:
    """The traits of the core map; where the system tells nothing, why.

    >>> core_map_traits(accel.affinity())["processes"][0]["name"]
    'this notebook'
    """
    found = _steady(found)
    processes = found.processes
    on = {cpu.number: found.on(cpu.number) for cpu in found.cpu_map.cpus}
    return {
        "boxes": [box.to_dict() for box in core_layout(found.cpu_map)],
        "is_compact": len(found.cpu_map.cpus) > MOST_ROOMY,
        "processes": [_process(found, index, process) for index, process in enumerate(processes)],
        "cpus": {str(number): _chips(places, processes) for number, places in on.items() if places},
        "notes": found.notes,
        "summary": [sentence for process in processes for sentence in _sentences(found, process)],
        "note": found.why_not,
    }


def _process(found: Affinity, index: int, process: ProcessHere) -> dict[str, Any]:
    own = [each for each in found.threads if each.pid == process.pid]
    mask = next((each.allowed for each in own if each.is_main), ())
    threads = f"{len(own)} thread{'' if len(own) == 1 else 's'}"
    busy = sum(each.is_busy for each in own)
    return {
        "short": process.short, "name": process.name, "colour": colour_of(index), "mask": list(mask), "mask_text": _cpus(mask),
        "threads_text": f"{threads}, {busy} busy" if busy else f"{threads}, idle",
    }  # fmt: skip


def _chips(places: Sequence[ThreadPlace], processes: Sequence[ProcessHere]) -> list[dict[str, Any]]:
    """One chip a process, those that compute here first."""
    chips = []
    for pid in dict.fromkeys(each.pid for each in places):
        index = next(number for number, process in enumerate(processes) if process.pid == pid)
        own = [each for each in places if each.pid == pid]
        busy = [each for each in own if each.is_busy]
        chips.append({
            "process": index,
            "is_busy": bool(busy),
            "what": busy[0].what if len(busy) == 1 else f"{len(busy)} threads" if busy else f"{len(own)} idle",
            "share": busy_text(busy).strip(),
            "load": min(1.0, sum(each.busy or 0.0 for each in own)),
            "words": who_is_on(own),
        })  # fmt: skip
    return chips


def _steady(found: Affinity) -> Affinity:
    """With shares to 5 %: what is not seen to change is not sent."""
    threads = tuple(
        each if each.busy is None else replace(each, busy=round(each.busy * STEPS) / STEPS)
        for each in found.threads
    )
    return replace(found, threads=threads)


def _sentences(found: Affinity, process: ProcessHere) -> list[str]:
    """A process for somebody who does not see the map: where it may run, and where its busy threads are."""
    own = [each for each in found.threads if each.pid == process.pid]
    mask = next((each.allowed for each in own if each.is_main), ())
    busy = [each for each in own if each.is_busy]
    where = "; ".join(f"{each.what} on CPU {each.cpu}" for each in busy) or "no thread is busy"
    return [f"{process.name} ({process.short}) may use {_cpus(mask)}: {where}."]


def _cpus(numbers: Sequence[int]) -> str:
    if not numbers:
        return "unknown CPUs"
    return f"CPU{'s' if len(numbers) > 1 else ''} {cpu_list(numbers)}"
