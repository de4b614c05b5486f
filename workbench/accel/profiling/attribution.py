"""The phase and module of each profiled event; a backward operation goes to the module of its forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.profiling.step_timing import CELL_END, CELL_START

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accel.profiling.kineto_columns import Ints, KinetoColumns

    Names = NDArray[np.object_]

PHASE, MODULE, STEP = "accel::", "accel.module::", "accel.step"
BACKWARD_NODE = "autograd::engine::evaluate_function"
COMPILED = "CompiledFxGraph"


@dataclass(frozen=True, eq=False)
class Timeline:
    """What the cell's own thread was doing, as consecutive pieces: a phase, or the named gap between two phases.

    `names[i]` holds from `starts[i]` until `starts[i + 1]`; the last piece has no end.
    """

    starts: Ints
    names: Names

    def at(self, times_ns: Ints) -> Names:
        """The name of the piece that holds each time."""
        import numpy as np

        return self.names[np.searchsorted(self.starts, times_ns, side="right") - 1]


@dataclass(frozen=True, eq=False)
class Attribution:
    """For every event: its phase or gap, its module ("" if none), and whether it is outside of all phase ranges."""

    phase: Names
    module: Names
    is_outside: NDArray[np.bool_]
    timeline: Timeline
    own_thread: int


def attribute(columns: KinetoColumns) -> Attribution:
    """Give each event its phase and module.

    Events under a range take the range's phase and module. Events outside every range (other threads, the code
    between two phases) take what the cell's own thread was doing in the middle of them.
    """
    import numpy as np

    phase, module = _inherit(columns)
    thread = _own_thread(columns)
    timeline = _timeline(columns, phase, thread)
    outside = np.array([p is None for p in phase], dtype=np.bool_)
    middles = columns.start_ns[outside] + columns.duration_ns[outside] // 2
    phases = np.array(phase, dtype=object)
    phases[outside] = timeline.at(middles)
    return Attribution(phases, np.array(module, dtype=object), outside, timeline, thread)


def _inherit(columns: KinetoColumns) -> tuple[list[str | None], list[str]]:
    """Hand phase and module down from ranges to what they enclose.

    Forward operations write (thread, sequence number) → module, the innermost last; a backward node carries the
    forward's thread and number, and everything below it inherits that module.
    """
    names, parent = [columns.names[i] for i in columns.name.tolist()], columns.parent.tolist()
    threads, forward_threads = columns.thread.tolist(), columns.forward_thread.tolist()
    sequences = columns.sequence.tolist()
    phase: list[str | None] = [None] * len(names)
    module = [""] * len(names)
    is_backward = [False] * len(names)
    module_of: dict[tuple[int, int], str] = {}
    for i in _by_start(columns):
        name, above = names[i], parent[i]
        if above >= 0:
            phase[i], module[i], is_backward[i] = phase[above], module[above], is_backward[above]
        if name.startswith(PHASE):
            phase[i] = name[len(PHASE) :]
        elif name.startswith(MODULE):
            module[i] = name[len(MODULE) :]
        elif COMPILED in name:
            module[i] = module[i] if module[i].startswith(COMPILED) else _compiled_name(module[i])
        elif name.startswith(BACKWARD_NODE):
            is_backward[i] = True
            module[i] = module_of.get((forward_threads[i], sequences[i]), "")
        elif sequences[i] >= 0 and module[i] and not is_backward[i]:
            module_of[threads[i], sequences[i]] = module[i]
    return phase, module


def _by_start(columns: KinetoColumns) -> list[int]:
    """All threads in one order of time, parents first: a backward on another thread comes after its forward."""
    import numpy as np

    starts = columns.start_ns[columns.order]
    return [int(i) for i in columns.order[np.argsort(starts, kind="stable")]]


def _compiled_name(module: str) -> str:
    """Inside a compiled graph there are no modules; say so, under the module that was compiled."""
    return f"{COMPILED} in {module}" if module else COMPILED


def _own_thread(columns: KinetoColumns) -> int:
    """The thread that our ranges are on; without any, the one that was busy longest."""
    import numpy as np

    if not len(columns):
        return 0
    ours = np.array([n.startswith((PHASE, MODULE, STEP)) for n in columns.names], dtype=np.bool_)[
        columns.name
    ]
    candidates = ours if ours.any() else columns.is_nested & (columns.parent < 0)
    threads, places = np.unique(columns.thread[candidates], return_inverse=True)
    if not len(threads):
        return 0
    return int(threads[np.argmax(np.bincount(places, weights=columns.duration_ns[candidates] + 1))])


def _timeline(columns: KinetoColumns, phase: list[str | None], thread: int) -> Timeline:
    """Cut the own thread's time at every start and end of a phase range; what lies between two phases is a gap."""
    import numpy as np

    is_range = np.array([n.startswith(PHASE) for n in columns.names], dtype=np.bool_)
    rows = (
        columns.order[(is_range[columns.name] & (columns.thread == thread))[columns.order]]
        if len(columns)
        else []
    )
    starts, ends = columns.start_ns, columns.start_ns + columns.duration_ns
    cuts: list[int] = [np.iinfo(np.int64).min]
    names: list[str] = []
    running: list[int] = []
    last = CELL_START

    def close(until: int | None) -> None:
        nonlocal last
        while running and (until is None or ends[running[-1]] <= until):
            ended = running.pop()
            last = str(phase[ended])
            cuts.append(int(ends[ended]))
            names.append(last)

    for i in map(int, rows):
        close(int(starts[i]))
        names.append(str(phase[running[-1]]) if running else f"{last} → {phase[i]}")
        cuts.append(int(starts[i]))
        running.append(i)
    close(None)
    names.append(f"{last} → {CELL_END}")
    return Timeline(np.array(cuts, dtype=np.int64), np.array(names, dtype=object))
