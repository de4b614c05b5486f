"""The complete events ("ph": "X") of a trace as growing numpy columns: what stays of a batch once its objects are gone."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from sys import getsizeof
from typing import TYPE_CHECKING, Any

from accel.profiling.kineto_columns import BOOKKEEPING, NO_WORK, ON_CPU
from accel.shown_text import LONGEST_NAME, one_line
from accel.traces.damage import Damage
from accel.traces.trace_event import NO_ARGS, EventArgs, TraceEvent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accel.profiling.kineto_columns import Ints

MODULE_FRAME = "nn.Module: "  # a Python frame that torch names after the module called (with_stack=True)
# Other events that torch writes: names of threads, arrows, instants, counters, ranges on a thread of their own.
USUAL_PHASES = frozenset("XMistfnCPbeR")
OLD_KINDS = {
    "operator": "cpu_op", "annotation": "user_annotation", "runtime": "cuda_runtime", "memcpy": "gpu_memcpy",
    "memset": "gpu_memset", "python": "python_function", "concurrent_kernel": "kernel",
}  # fmt: skip
ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
WORK = (
    ON_CPU
    | ON_DEVICE
    | {"cuda_runtime", "cuda_driver", "xpu_runtime", "xpu_driver", "hpu_op", "mtia_runtime"}
)
# What the report has no use for; any other category is named in its notes.
KNOWN = NO_WORK | {
    "trace", "cpu_instant_event", "ac2g", "fwdbwd", "fwd_bwd", "cuda_profiler_range", "mtia_ccp_events", "mtia_insight",
    "collective_comm", "xpu_sync", "mtia_workloadd", "glow_runtime", "",
}  # fmt: skip
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
    """One entry per event; times in µs, threads and kinds by number; the other fields are as in `EventArgs`."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    threads: tuple[int | str, ...]
    name: Ints
    kind: Ints
    thread: Ints
    ts: NDArray[np.float64]
    dur: NDArray[np.float64]
    external: Ints
    correlation: Ints
    stream: Ints
    device: Ints
    bytes: Ints
    sequence: Ints
    forward: Ints


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
        self._names, self._threads = Numbers(), Numbers()
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
        return sum(words.kept_bytes for words in (self._names, self.categories, self._threads))

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
        is_torch = any(name.startswith("aten::") for name in names)
        if is_torch and not set(kinds) & (WORK | NO_WORK):  # torch before 1.8 had no categories
            kinds = ["cpu_op" if kind == "" else kind for kind in kinds]
        kept = self._is_work(names, kinds, columns)
        self._count_odd(kinds, columns["kind"])
        return EventArrays(
            names=names, kinds=tuple(kinds), threads=tuple(self._threads),
            **(columns if kept.all() else {field: values[kept] for field, values in columns.items()}),
        )  # fmt: skip

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

        odd = np.array([each not in WORK and each not in KNOWN for each in kinds], dtype=np.bool_)
        self.damage.counts["odd_category"] += int(odd[kind].sum())


def _numbered(numbers: Numbers, words: list[Any]) -> Any:
    import numpy as np

    return np.fromiter(map(numbers.__getitem__, words), np.int32, len(words))


def _whole_numbers(values: list[int]) -> Any:
    import numpy as np

    try:
        return np.fromiter(values, np.int64, len(values))
    except OverflowError:  # no number that torch writes is so large
        return np.array([value if abs(value) < 2**63 else 0 for value in values], np.int64)
