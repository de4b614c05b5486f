"""Calls of a model: from which line, in which mode, whether autograd recorded a graph for them, and whether a backward came."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel.workload.phase_record import ForwardCall, Mark

MOSTLY = (
    0.6  # the last batch of a validation loop that fetches nothing is followed by the next epoch's backward
)


@dataclass(frozen=True)
class CallsOfLine:
    """All calls of one model from one line in one mode. `unused` are those whose graph no backward used; `unused_ms` together."""

    filename: str
    line: int
    function: str  # "<module>" for the cell's own level
    is_training: bool
    calls: int
    with_graph: int
    unused: int
    unused_ms: float
    model: str = ""  # its name; "" where none is known

    @property
    def is_validation(self) -> bool:
        """Whether most of its calls recorded a graph for nothing."""
        return self.unused > 0 and self.unused >= MOSTLY * self.calls

    @property
    def is_trained_through(self) -> bool:
        """Whether a backward went through its graphs, as far as the order of things tells."""
        return self.with_graph > 0 and not self.is_validation


def calls_of_lines(
    calls: Sequence[ForwardCall], marks: Sequence[Mark], names: Mapping[int, str] = MappingProxyType({})
) -> tuple[CallsOfLine, ...]:
    """The calls by line, mode and model, in order of the first; `names` are the models' by id, without them all are one.

    A call is used when a backward begins before the next batch is fetched and before the same line calls again, or before
    another line calls a model: one backward may be for a whole episode, or for the sum over several batches.
    """
    backward = _times(marks, "backward", begins=True)
    ended = _times(marks, "backward", begins=False)
    fetches = _times(marks, "data", begins=True)
    groups: dict[tuple[str, int, str, bool], list[ForwardCall]] = defaultdict(list)
    for call in calls:
        if bisect_right(backward, call.begin_ns) == bisect_right(ended, call.begin_ns):  # not a recompute
            groups[call.filename, call.line, call.function, call.is_training].append(call)
    found = []
    for place, group in groups.items():
        others = sorted(call.begin_ns for each in groups.values() if each is not group for call in each)
        unused = {
            call
            for call, following in zip(group, [*group[1:], None], strict=True)
            if call.nodes
            and not _is_used(call, following, fetches, backward)
            and not _comes_first(backward, others, call.end_ns)
        }
        for model in dict.fromkeys(names.get(call.model, "") for call in group):
            own = [call for call in group if names.get(call.model, "") == model]
            lost = [call for call in own if call in unused]
            ms = sum(call.end_ns - call.begin_ns for call in lost) / 1e6
            with_graph = sum(call.nodes > 0 for call in own)
            found.append(CallsOfLine(*place, len(own), with_graph, len(lost), ms, model))
    return tuple(found)


def _is_used(
    call: ForwardCall, following: ForwardCall | None, fetches: Sequence[int], backward: Sequence[int]
) -> bool:
    next_fetch = bisect_left(fetches, call.end_ns)
    ends = [fetches[next_fetch]] if next_fetch < len(fetches) else []
    ends += [following.begin_ns] if following is not None else []
    first = bisect_left(backward, call.end_ns)
    return first < len(backward) and (not ends or backward[first] < min(ends))


def _comes_first(these: Sequence[int], others: Sequence[int], after_ns: int) -> bool:
    """Whether one of these times comes after that moment, and before any of the others."""
    first, other = bisect_left(these, after_ns), bisect_left(others, after_ns)
    return first < len(these) and (other == len(others) or these[first] < others[other])


def _times(marks: Sequence[Mark], phase: str, *, begins: bool) -> list[int]:
    return [mark.time_ns for mark in marks if mark.phase == phase and mark.begins == begins]
