"""What each line of the user's code costs: for every operation, the line that led to it (`--stacks`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from accel.profiling.attribution import BACKWARD_NODE, MODULE, PHASE
from accel.profiling.op_table import shown_name
from accel.profiling.user_lines import LINE, NOWHERE
from accel.workload.user_code import CodeLine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from accel.profiling.kineto_columns import Ints
    from accel.profiling.profiled_events import ProfiledEvents


@dataclass(frozen=True)
class LineCost:
    """One operation in one phase and module, as far as one line of the user's code led to it.

    Times and calls are per step, `share` is of all self time of operations, as in `OpRow`. A backward operation belongs
    to the line of its forward. "" in a field that rows were added up over.
    """

    op: str
    phase: str
    module: str
    filename: str
    line: int
    text: str  # the line itself, without indentation
    self_ms: float
    share: float
    calls: float
    device_ms: float = 0.0

    @property
    def place(self) -> str:
        """The file and number to look at: "train.py, line 12"; a cell's file is "cell"."""
        return str(CodeLine(self.filename, self.line))


def with_lines(
    raw: Iterable[Any], lines: Sequence[CodeLine], events: ProfiledEvents | None
) -> ProfiledEvents | None:
    """The events with the line of each; as they are where none were recorded.

    >>> with_lines(window.events, window.user_lines.lines, events).lines[0]
    CodeLine(filename='<ipython-input-3-0f1e>', line=2)
    """
    if events is None or not lines or events.line is not None:
        return events
    return replace(events, line=_line_of_each(raw, events), lines=tuple(lines))


def read_lines(
    raw: Iterable[Any], lines: Sequence[CodeLine], events: ProfiledEvents | None, *, total_ms: float
) -> tuple[LineCost, ...]:
    """Rows of (operation, phase, module, line), most expensive first; `total_ms` is what shares are of.

    `raw` are the profiler's own events, for the instants at which another line began; `lines` is what those count.
    Operations that no line of the user's led to have no row.
    """
    events = with_lines(raw, lines, events)
    if events is None or events.line is None:
        return ()
    sums = _add_up(events, events.line)
    steps = events.kept.steps
    rows = []
    for (op, phase, module, number), (ns, calls, device_ns) in sums.items():
        where, self_ms = lines[number], ns / steps / 1e6
        share = self_ms / total_ms if total_ms else 0.0
        rows.append(LineCost(op, phase, module, where.filename, where.line, where.text, self_ms, share,
                             calls / steps, device_ns / steps / 1e6))  # fmt: skip
    return tuple(sorted(rows, key=lambda row: -row.self_ms))


def add_up_lines(rows: Iterable[LineCost]) -> tuple[LineCost, ...]:
    """One row a line, over all operations, phases and modules; most expensive first.

    >>> add_up_lines(profile.lines)[0].place
    'train.py, line 12'
    """
    sums: dict[CodeLine, LineCost] = {}
    for row in rows:
        key = CodeLine(row.filename, row.line)
        old = sums.get(key)
        sums[key] = replace(row, op="", phase="", module="") if old is None else replace(
            old, self_ms=old.self_ms + row.self_ms, share=old.share + row.share, calls=old.calls + row.calls,
            device_ms=old.device_ms + row.device_ms,
        )  # fmt: skip
    return tuple(sorted(sums.values(), key=lambda row: -row.self_ms))


def _line_of_each(raw: Iterable[Any], events: ProfiledEvents) -> Ints:
    """For each event the number of its line, or NOWHERE; instants are of the cell's own thread."""
    import numpy as np

    instants = sorted((e.start_ns(), int(e.name()[len(LINE) :])) for e in raw if e.name().startswith(LINE))
    begins = np.array([time for time, _ in instants], dtype=np.int64)
    numbers = np.array([NOWHERE, *(number for _, number in instants)], dtype=np.int64)
    place: Ints = np.searchsorted(begins, events.columns.start_ns, side="right")
    return _backward_to_forward(events, numbers[place], place)


def _backward_to_forward(events: ProfiledEvents, line: Ints, place: Ints) -> Ints:
    """Give what a backward node runs the line of its forward, unless lines of the user's own run inside the node.

    As for modules, the forward is found by (thread, sequence number); of several operations with one number the last
    made the node. `place` tells two moments on the same line apart.
    """
    import numpy as np

    columns = events.columns
    names, parent = columns.names, columns.parent.tolist()
    is_node = np.array([name.startswith(BACKWARD_NODE) for name in names], dtype=np.bool_)[
        columns.name
    ].tolist()
    threads, forward_threads = columns.thread.tolist(), columns.forward_thread.tolist()
    sequences, own, at = columns.sequence.tolist(), line.tolist(), place.tolist()
    node = [-1] * len(own)
    forward: dict[tuple[int, int], int] = {}
    for i in columns.order[np.argsort(columns.start_ns[columns.order], kind="stable")].tolist():
        above = node[parent[i]] if parent[i] >= 0 else -1
        node[i] = i if is_node[i] else above
        if is_node[i]:
            own[i] = forward.get((forward_threads[i], sequences[i]), own[i])
        elif above >= 0:
            own[i] = own[above] if at[i] == at[above] else own[i]
        elif sequences[i] >= 0:
            forward[threads[i], sequences[i]] = own[i]
    return np.array(own, dtype=np.int64)


Key = tuple[str, str, str, int]


def _add_up(events: ProfiledEvents, line: Ints) -> dict[Key, list[float]]:
    """(operation, phase, module, line) → [self ns, calls, device ns]; ranges are no operations."""
    import numpy as np

    columns, found = events.columns, events.found
    shown = [shown_name(name) for name in columns.names]
    is_op = np.array([not name.startswith((PHASE, MODULE)) for name in columns.names], dtype=np.bool_)
    device = _device_ns(events)
    counts = is_op[columns.name] & events.counts & (line != NOWHERE)
    begins, self_ns = events.begins_inside, events.self_ns
    sums: dict[Key, list[float]] = {}
    for i in np.flatnonzero(counts & (begins | (self_ns > 0) | (device > 0))).tolist():
        key = (shown[columns.name[i]], str(found.phase[i]), str(found.module[i]), int(line[i]))
        sum_ = sums.setdefault(key, [0.0, 0.0, 0.0])
        sum_[0] += float(self_ns[i])
        sum_[1] += float(begins[i])
        sum_[2] += float(device[i])
    return sums


def _device_ns(events: ProfiledEvents) -> NDArray[Any]:
    """For each operation the time of the kernels it launched."""
    import numpy as np

    columns = events.columns
    launched = (columns.launcher >= 0) & ~columns.is_nested
    weights = events.duration_ns[launched]
    return np.bincount(columns.launcher[launched], weights=weights, minlength=len(columns))
