"""What each event inherits from the ranges round it: its phase and its module; backward nodes have their forward's module."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.profiling.nesting import nearest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accel.profiling.kineto_columns import Flags, Ints, KinetoColumns

PHASE, MODULE, STEP = "accel::", "accel.module::", "accel.step"
FIRST_STEP = "accel.step begins"  # where a trace marks its steps from end to end: the others begin as the one before ends
BACKWARD_NODE = "autograd::engine::evaluate_function"
COMPILED = "CompiledFxGraph"


@dataclass(frozen=True, eq=False)
class NumberedNames:
    """A name for every event, by its number: comparing numbers is a hundred times cheaper than comparing names.

    >>> phases.names[phases.number[0]]
    'forward'
    """

    names: tuple[str, ...]
    number: Ints

    def where(self, name: str) -> Flags:
        """Which events have that name."""
        import numpy as np

        if name not in self.names:
            return np.zeros(len(self.number), dtype=np.bool_)
        found: Flags = self.number == self.names.index(name)
        return found

    def spelled(self) -> NDArray[np.object_]:
        """The names themselves, one an event."""
        import numpy as np

        every: NDArray[np.object_] = np.array(self.names, dtype=object)[self.number]
        return every

    def renamed(self, rename: Callable[[str], str]) -> NumberedNames:
        """The same with other names; those that become equal become one."""
        import numpy as np

        number: dict[str, int] = {}
        now = [number.setdefault(rename(name), len(number)) for name in self.names]
        if now == list(range(len(now))):
            return NumberedNames(tuple(number), self.number)
        return NumberedNames(tuple(number), np.array(now, dtype=np.int64)[self.number])


def rows_of_ranges(columns: KinetoColumns) -> Ints:
    """For each event the row of the innermost phase range round it (or itself), or -1."""
    return nearest(columns.parent, _named(columns, lambda name: name.startswith(PHASE)))


def modules_of(columns: KinetoColumns) -> NumberedNames:
    """The module of each event, "" if none.

    Forward operations write (thread, sequence number) → module, the innermost last; a backward node carries the
    forward's thread and number, and everything below it inherits that module. Inside a compiled graph there are no
    modules: it is known by its kind and the module that was compiled.
    """
    import numpy as np

    is_module = _named(columns, lambda name: name.startswith(MODULE))
    is_node = _named(columns, lambda name: name.startswith(BACKWARD_NODE))
    is_graph = _named(columns, lambda name: COMPILED in name and not name.startswith((PHASE, MODULE)))
    if not is_module.any() and not is_graph.any():
        return NumberedNames(("",), np.zeros(len(columns), dtype=np.int64))
    is_node &= ~is_graph
    base = nearest(columns.parent, is_module | is_node)
    inner = nearest(columns.parent, is_module | is_node | is_graph)
    in_graph = np.append(is_graph, False)[inner]
    names, own = _module_names(columns, is_module)
    is_backward = nearest(columns.parent, is_node) >= 0
    module: Ints = own[base]
    module[in_graph] += len(names) // 2  # the second half is the first, compiled
    is_range = _named(columns, lambda name: name.startswith((PHASE, MODULE)))
    writes = (columns.sequence >= 0) & ~is_backward & ~is_range & ~is_graph & (module > 0)
    own[np.flatnonzero(is_node)] = _forward_modules(
        columns, np.flatnonzero(writes), np.flatnonzero(is_node), module
    )
    in_backward = is_backward & (base >= 0)
    module[in_backward] = own[base[in_backward]]
    again = in_backward & in_graph & (module < len(names) // 2)
    module[again] += len(names) // 2
    return NumberedNames(names, module)


def _module_names(columns: KinetoColumns, is_module: Flags) -> tuple[tuple[str, ...], Ints]:
    """All names that can occur, the compiled ones last; and each event's own number, with a 0 behind the last for row -1."""
    import numpy as np

    number = {"": 0}
    of_name = [
        number.setdefault(n[len(MODULE) :], len(number)) if n.startswith(MODULE) else 0 for n in columns.names
    ]
    own = np.append(np.where(is_module, np.array(of_name or [0], dtype=np.int64)[columns.name], 0), 0)
    plain = list(number)
    return (*plain, *map(_compiled_name, plain)), own


def _compiled_name(module: str) -> str:
    return f"{COMPILED} in {module}" if module else COMPILED


def _forward_modules(columns: KinetoColumns, writers: Ints, nodes: Ints, module: Ints) -> Ints:
    """For each backward node the module that the last forward operation before it, with its thread and number, wrote."""
    import numpy as np

    if not len(writers) or not len(nodes):
        return np.zeros(len(nodes), dtype=np.int64)
    rows = np.append(writers, nodes)
    threads = np.append(columns.thread[writers], columns.forward_thread[nodes])
    # A node without a number has none of a forward's: such numbers are below zero, which no writer's is.
    key = _joined(threads, columns.sequence[rows])
    when = _places_in_time(columns)[rows]
    count = len(columns) + 1
    at = key * count + when
    order = np.argsort(at[: len(writers)], kind="stable")
    place = np.searchsorted(at[: len(writers)][order], at[len(writers) :]) - 1
    found = order[np.maximum(place, 0)]
    matches = (place >= 0) & (key[found] == key[len(writers) :])
    written: Ints = np.where(matches, module[writers[found]], 0)
    return written


def _joined(one: Ints, other: Ints) -> Ints:
    """A small number for each distinct pair."""
    import numpy as np

    _, first = np.unique(one, return_inverse=True)
    seconds, second = np.unique(other, return_inverse=True)
    _, joined = np.unique(first * len(seconds) + second, return_inverse=True)
    small: Ints = joined.astype(np.int64)
    return small


def _places_in_time(columns: KinetoColumns) -> Ints:
    """All threads in one order of time, parents first: a backward on another thread comes after its forward."""
    import numpy as np

    order = columns.order[np.argsort(columns.start_ns[columns.order], kind="stable")]
    places = np.empty(len(columns), dtype=np.int64)
    places[order] = np.arange(len(columns))
    return places


def _named(columns: KinetoColumns, wanted: Callable[[str], bool]) -> Flags:
    import numpy as np

    flags: Iterable[bool] = map(wanted, columns.names)
    return np.array([*flags, False], dtype=np.bool_)[columns.name]
