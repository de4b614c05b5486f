"""The complete events ("ph": "X") of a trace as growing numpy columns: what stays of a batch once its objects are gone.

Tools that merge the traces of ranks write files with several processes; `processes_of` separates them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from sys import getsizeof
from typing import TYPE_CHECKING, Any

from accel.profiling.kineto_columns import BOOKKEEPING, NO_WORK, ON_CPU, RUNTIME, is_of
from accel.shown_text import LONGEST_NAME, one_line
from accel.traces.damage import Damage
from accel.traces.trace_event import NO_ARGS, EventArgs, TraceEvent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accel.profiling.kineto_columns import Flags, Ints

PROFILER_STEP = "ProfilerStep#"
MODULE_FRAME = "nn.Module: "  # a Python frame that torch names after the module called (with_stack=True)
# Other events that torch writes: names of threads, arrows, instants, counters, ranges on a thread of their own.
USUAL_PHASES = frozenset("XMistfnCPbeR")
OLD_KINDS = {
    "operator": "cpu_op", "annotation": "user_annotation", "runtime": "cuda_runtime", "memcpy": "gpu_memcpy",
    "memset": "gpu_memset", "python": "python_function", "concurrent_kernel": "kernel",
}  # fmt: skip
ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
WORK = ON_CPU | ON_DEVICE | RUNTIME | {"hpu_op"}
# What the report has no use for. Events of other categories, as of a device that accel cannot read, are counted in its notes.
KNOWN = NO_WORK | {
    "trace", "cpu_instant_event", "ac2g", "fwdbwd", "fwd_bwd", "cuda_profiler_range", "collective_comm", "xpu_sync",
}  # fmt: skip
# torch's older exporter (EventList.export_chrome_trace) gives kernels no category: the name of their process marks them as
# kernels, and their thread id is the device number.
OLD_KERNELS, OLD_OPERATIONS = "CUDA functions", "CPU functions"
LEAST_SHARE = 0.01  # of the busiest process' work: one that does less is no rank of its own
MOSTLY = 0.9
DAY_US = 86_400e6
LONGEST_CATEGORY = 40
OF_DEVICES = ("correlation", "stream", "device", "bytes")


class Numbers(dict[Any, int]):
    """Gives each new word the next number; of a long one only the beginning is kept, which is all that is ever shown."""

    kept_bytes = 0

    def __missing__(self, word: Any) -> int:
        if isinstance(word, str) and len(word) > LONGEST_NAME:
            return self[word[: LONGEST_NAME - 1] + "…"]
        self.kept_bytes += getsizeof(word)
        self[word] = number = len(self)
        return number


@dataclass(frozen=True, eq=False)
class EventArrays:
    """One entry per event; times in µs; threads, processes and kinds by number; the other fields are as in `EventArgs`."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    threads: tuple[int | str, ...]
    processes: tuple[int | str, ...]
    name: Ints
    kind: Ints
    thread: Ints
    process: Ints
    ts: NDArray[np.float64]
    dur: NDArray[np.float64]
    external: Ints
    correlation: Ints
    stream: Ints
    device: Ints
    bytes: Ints
    sequence: Ints
    forward: Ints

    def chosen(self, kept: Flags) -> EventArrays:
        """Some of the events."""
        columns = [field.name for field in fields(self) if not isinstance(getattr(self, field.name), tuple)]
        return replace(self, **{name: getattr(self, name)[kept] for name in columns})


class EventTable:
    """Add batches of events, then take the arrays; nothing of the batches is kept.

    >>> table = EventTable(damage)
    >>> table.add(events)
    >>> table.arrays().names[0]
    'aten::empty'
    """

    def __init__(self, damage: Damage) -> None:
        self.damage = damage
        self.seen = 0
        self.categories: Numbers = Numbers()
        self._names, self._threads, self._processes = Numbers(), Numbers(), Numbers()
        self._parts: dict[str, list[Any]] = {}

    def add(self, events: list[TraceEvent]) -> None:
        """Keep what the report needs of these events, and count what is wrong with others."""
        import numpy as np

        self.seen += len(events)
        spans = [event for event in events if event.ph == "X"]
        if {event.ph for event in events} - USUAL_PHASES:
            self.damage.counts["odd_phase"] += sum(event.ph not in USUAL_PHASES for event in events)
        args = [event.args for event in spans]
        # A list of one attribute, written out: a quarter faster than attrgetter, and this is most of the reading in Python.
        part: dict[str, Any] = {
            "name": _numbered(self._names, [event.name for event in spans]),
            "kind": _numbered(self.categories, [event.cat for event in spans]),
            "thread": _numbered(self._threads, [event.tid for event in spans]),
            "process": _numbered(self._processes, [event.pid for event in spans]),
            "ts": np.fromiter([event.ts for event in spans], np.float64, len(spans)),
            "dur": np.fromiter([event.dur for event in spans], np.float64, len(spans)),
            "external": _whole_numbers([each.external for each in args]),
            "sequence": _whole_numbers([each.sequence for each in args]),
            "forward": _whole_numbers([each.forward for each in args]),
        }
        self._add_device_fields(part, args)
        for field, values in part.items():
            self._parts.setdefault(field, []).append(values)

    @property
    def name_bytes(self) -> int:
        """What all the different names, categories and threads take."""
        numbered = (self._names, self.categories, self._threads, self._processes)
        return sum(words.kept_bytes for words in numbered)

    def _add_device_fields(self, part: dict[str, Any], args: list[EventArgs]) -> None:
        """Operations, which most events are, have none of these fields: they are not asked."""
        import numpy as np

        asked = np.array([category not in ON_CPU for category in self.categories] or [True], dtype=np.bool_)
        rows = np.flatnonzero(asked[part["kind"]])
        some = [args[row] for row in rows.tolist()]
        for field in OF_DEVICES:
            part[field] = np.broadcast_to(np.int64(getattr(NO_ARGS, field)), len(args))  # takes no memory
            if some:
                part[field] = part[field].copy()
                part[field][rows] = _whole_numbers(list(map(attrgetter(field), some)))

    def arrays(self) -> EventArrays:
        """The events added, without wrapper events; kinds under the names that torch uses now."""
        import numpy as np

        columns = {field: np.concatenate(parts) for field, parts in self._parts.items()}
        self._parts.clear()
        names, categories = tuple(map(one_line, self._names)), tuple(self.categories)
        kinds = [OLD_KINDS.get(category.lower(), category.lower()) for category in categories]
        is_old = OLD_KERNELS in self._processes or OLD_OPERATIONS in self._processes
        is_torch = is_old or any(name.startswith("aten::") for name in names)
        if is_torch and not set(kinds) & (WORK | NO_WORK):  # torch before 1.8 had no categories
            kinds = ["cpu_op" if kind == "" else kind for kind in kinds]
        if OLD_KERNELS in self._processes:
            self._name_old_kernels(columns, kinds)
        kept = self._is_work(names, kinds, columns)
        self._count_odd(kinds, columns["kind"])
        return EventArrays(
            names=names, kinds=tuple(kinds), threads=tuple(self._threads), processes=tuple(self._processes),
            **(columns if kept.all() else {field: values[kept] for field, values in columns.items()}),
        )  # fmt: skip

    def _name_old_kernels(self, columns: dict[str, Any], kinds: list[str]) -> None:
        import numpy as np

        rows = columns["process"] == self._processes[OLD_KERNELS]
        columns["kind"][rows] = len(kinds)
        kinds.append("kernel")
        on = [thread if isinstance(thread, int) and abs(thread) < 2**31 else 0 for thread in self._threads]
        columns["device"][rows] = np.array(on, dtype=np.int64)[columns["thread"][rows]]

    def _is_work(self, names: tuple[str, ...], kinds: list[str], columns: dict[str, Any]) -> Any:
        import numpy as np

        by_kind = np.array([kind in WORK for kind in kinds], dtype=np.bool_)
        is_frame = np.array([kind == "python_function" for kind in kinds], dtype=np.bool_)
        by_name = np.array([name not in BOOKKEEPING for name in names], dtype=np.bool_)
        of_module = np.array([name.startswith(MODULE_FRAME) for name in names], dtype=np.bool_)
        name, kind = columns["name"], columns["kind"]
        return by_kind[kind] & by_name[name] | is_frame[kind] & of_module[name]

    def _count_odd(self, kinds: list[str], kind: Ints) -> None:
        import numpy as np

        counts = Counter(dict(enumerate(np.bincount(kind, minlength=len(kinds)).tolist())))
        for number, count in counts.most_common():
            if count and kinds[number] not in WORK | KNOWN:
                self.damage.odd_categories[one_line(kinds[number], LONGEST_CATEGORY)] += count


def _numbered(numbers: Numbers, words: list[Any]) -> Any:
    import numpy as np

    return np.fromiter(map(numbers.__getitem__, words), np.int32, len(words))


def _whole_numbers(values: list[int]) -> Any:
    import numpy as np

    try:
        return np.fromiter(values, np.int64, len(values))
    except OverflowError:  # no number that torch writes is so large
        return np.array([value if abs(value) < 2**63 else 0 for value in values], np.int64)


def processes_of(events: EventArrays) -> tuple[list[tuple[str, EventArrays]], int]:
    """(id, events) of each process with at least 1 % of the busiest one's work, and the number of other processes.

    A plain trace has only one process, "". Work on a device belongs to the process whose call launched it.

    >>> parts, others = processes_of(merged)
    >>> [process for process, _ in parts]
    ['[TP00] 4711', '[TP01] 4712']
    """
    import numpy as np

    on_cpu, operations = (is_of(events.kind, events.kinds, kinds) for kinds in (ON_CPU, {"cpu_op"}))
    if not on_cpu.any():  # only the GPU was recorded, and the calls into its runtime
        on_cpu = is_of(events.kind, events.kinds, RUNTIME)
    is_work = operations if operations.any() else on_cpu  # a long range may contain no work
    lasted_us = np.nan_to_num(events.dur, nan=0.0, posinf=0.0).clip(0, DAY_US)
    all_us, busy_us = (
        np.bincount(events.process[which], weights=lasted_us[which], minlength=len(events.processes))
        for which in (on_cpu, is_work)
    )
    busiest = np.flatnonzero((busy_us > 0) & (busy_us >= LEAST_SHARE * busy_us.max()))
    all_busy = int((all_us > 0).sum())
    if all_busy < 2 or not len(busiest):
        return [("", events)], 0
    owner = _owners(events, busiest)
    names = [one_line(str(events.processes[p]), LONGEST_CATEGORY) for p in busiest]
    parts = [
        (name if len(busiest) > 1 else "", events.chosen(owner == p))
        for name, p in zip(names, busiest, strict=True)
    ]
    return parts, all_busy - len(busiest)


def _owners(events: EventArrays, processes: Ints) -> Ints:
    """The process of each event; work on a device goes to the process that launched it.

    The owner is the process in the row's label; else the one that made nearly all launches of its work; else the one with
    the nearest launch call.
    """
    import numpy as np

    owner = events.process.astype(np.int64)
    on_device = np.flatnonzero(is_of(events.kind, events.kinds, ON_DEVICE))
    if not len(on_device):
        return owner
    waits_us = np.stack([_waits_us(events, on_device, process) for process in processes])
    nearest = waits_us.argmin(axis=0)
    made = np.isfinite(waits_us.min(axis=0))
    names = [str(process) for process in events.processes]
    rows = np.stack([events.process[on_device], events.device[on_device]])
    for process, device in np.unique(rows, axis=1).T:
        group = (rows[0] == process) & (rows[1] == device)
        own = [
            i
            for i, p in enumerate(processes)
            if _label(names[p]) and _label(names[p]) == _label(names[process])
        ]
        votes = np.bincount(nearest[group & made], minlength=len(processes))
        is_labelled = process in processes and names[process] != str(
            device
        )  # a GPU's rows have its number, as torch writes them
        if is_labelled or len(own) == 1:  # by the tool that merged them
            owner[on_device[group]] = process if is_labelled else processes[own[0]]
        elif votes.max() >= MOSTLY * max(votes.sum(), 1):
            owner[on_device[group]] = processes[votes.argmax()]
        else:  # the devices of several processes have the same number
            owner[on_device[group]] = processes[nearest[group]]
    return owner


def _label(process: str) -> str:
    """What stands before the number in "[TP00] 4711"."""
    return process.rpartition(" ")[0]


def _waits_us(events: EventArrays, on_device: Ints, process: int) -> NDArray[np.float64]:
    """How long after its call in that process each piece of work began; infinite where there is no such call."""
    import numpy as np

    is_call = is_of(events.kind, events.kinds, RUNTIME) & (events.correlation > 0)
    calls = np.flatnonzero(is_call & (events.process == process))
    if not len(calls):
        return np.full(len(on_device), np.inf)
    calls = calls[np.argsort(events.correlation[calls], kind="stable")]
    made, wanted = events.correlation[calls], events.correlation[on_device]
    call = calls[np.minimum(np.searchsorted(made, wanted), len(calls) - 1)]
    with np.errstate(invalid="ignore"):
        wait_us = events.ts[on_device] - events.ts[call]
        is_own: Flags = (events.correlation[call] == wanted) & (wait_us >= 0)
    return np.where(is_own, wait_us, np.inf)
