"""The phase and module of each profiled event; a backward operation goes to the module of its forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from accel.profiling.inheritance import (
    BACKWARD_NODE,
    COMPILED,
    FIRST_STEP,
    MODULE,
    PHASE,
    STEP,
    NumberedNames,
    modules_of,
    rows_of_ranges,
)
from accel.profiling.step_timing import CELL_END, CELL_START

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accel.profiling.kineto_columns import Flags, Ints, KinetoColumns

    Names = NDArray[np.object_]

__all__ = [
    "BACKWARD_NODE", "COMPILED", "FIRST_STEP", "MODULE", "PHASE", "STEP", "Attribution", "Timeline", "attribute",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Timeline:
    """What the cell's own thread was doing, as consecutive pieces: a phase, or the named gap between two phases.

    `names[i]` holds from `starts[i]` until `starts[i + 1]`; the last piece has no end.
    """

    starts: Ints
    names: Names

    def places(self, times_ns: Ints) -> Ints:
        """The piece that holds each time, by its place."""
        import numpy as np

        return np.searchsorted(self.starts, times_ns, side="right") - 1

    def at(self, times_ns: Ints) -> Names:
        """The name of the piece that holds each time."""
        return self.names[self.places(times_ns)]


@dataclass(frozen=True, eq=False)
class Attribution:
    """For every event: its phase or gap, its module ("" if none), and whether it is outside of all phase ranges."""

    phases: NumberedNames
    modules: NumberedNames
    is_outside: Flags
    timeline: Timeline
    own_thread: int

    @cached_property
    def phase(self) -> Names:
        """The phase or gap of each event, spelled out."""
        return self.phases.spelled()

    @cached_property
    def module(self) -> Names:
        """The module of each event, spelled out."""
        return self.modules.spelled()

    def renamed(self, rename: Callable[[str], str]) -> Attribution:
        """The same with other names of phases and gaps."""
        import numpy as np

        names = np.array([*map(rename, self.timeline.names.tolist())], dtype=object)
        return replace(
            self, phases=self.phases.renamed(rename), timeline=Timeline(self.timeline.starts, names)
        )


def attribute(columns: KinetoColumns) -> Attribution:
    """Give each event its phase and module.

    Events under a range take the range's phase and module. Events outside every range (other threads, the code
    between two phases) take what the cell's own thread was doing in the middle of them.
    """
    import numpy as np

    thread = _own_thread(columns)
    timeline = _timeline(columns, thread)
    inside = rows_of_ranges(columns)
    outside = inside < 0
    number: dict[str, int] = {}
    of_name = [
        number.setdefault(name[len(PHASE) :], len(number)) if name.startswith(PHASE) else 0
        for name in columns.names
    ]
    of_piece = [number.setdefault(name, len(number)) for name in timeline.names.tolist()]
    middles = columns.start_ns[outside] + columns.duration_ns[outside] // 2
    phases = np.array([*of_name, 0], dtype=np.int64)[columns.name[inside]]
    phases[outside] = np.array(of_piece, dtype=np.int64)[timeline.places(middles)]
    return Attribution(NumberedNames(tuple(number), phases), modules_of(columns), outside, timeline, thread)


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


def _timeline(columns: KinetoColumns, thread: int) -> Timeline:
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

    def phase_of(row: int) -> str:
        return columns.names[int(columns.name[row])][len(PHASE) :]

    def close(until: int | None) -> None:
        nonlocal last
        while running and (until is None or ends[running[-1]] <= until):
            ended = running.pop()
            last = phase_of(ended)
            cuts.append(int(ends[ended]))
            names.append(last)

    for i in map(int, rows):
        close(int(starts[i]))
        names.append(phase_of(running[-1]) if running else f"{last} → {phase_of(i)}")
        cuts.append(int(starts[i]))
        running.append(i)
    close(None)
    names.append(f"{last} → {CELL_END}")
    return Timeline(np.array(cuts, dtype=np.int64), np.array(names, dtype=object))
