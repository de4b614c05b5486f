"""The turns of all loops of a run: from each fetch to the next, or to where the loop was over."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from accel.workload.loop_record import Fetch, LoopRecord


class Turn(NamedTuple):
    """One time through the body of a loop, its fetch included. `is_open`: when it ended is not known."""

    begin_ns: int
    end_ns: int
    run: int
    samples: int
    is_open: bool
    loader: int = 0

    def holds(self, time_ns: int) -> bool:
        return self.begin_ns <= time_ns < self.end_ns


Turns = dict[int, list[Turn]]  # by the loop's key, in order
_Keyed = tuple[int, Turn]


def turns_of(loops: LoopRecord, until_ns: int) -> Turns:
    """All turns by loop.

    What a loader gives to code that is no `for` statement of the cell (a function's loop, `next(it)`) is a loop too, where its
    iterator is made in the very turn that fetches from it; its turns end with that at the latest.
    """
    own, others = _sorted_out(loops, until_ns)
    return _by_key([*own, *_within(others, own, loops)])


def batches_of(loops: LoopRecord, until_ns: int) -> Turns:
    """From each batch to the next one of the same source: turns of all loops that fetch any, whoever asks for them."""
    own, others = _sorted_out(loops, until_ns)
    return _by_key([(key, turn) for key, turn in (*own, *others) if turn.samples or turn.loader])


def turn_at(turns: Sequence[Turn], time_ns: int) -> Turn | None:
    """The turn of one loop that holds this moment."""
    index = bisect_right(turns, time_ns, key=_begin) - 1
    return turns[index] if index >= 0 and turns[index].holds(time_ns) else None


def _begin(turn: Turn) -> int:
    return turn.begin_ns


def _sorted_out(loops: LoopRecord, until_ns: int) -> tuple[list[_Keyed], list[_Keyed]]:
    """Turns of the cell's own loops, and those of loaders that other code asks for batches."""
    own: list[_Keyed] = []
    others: list[_Keyed] = []
    for (key, _), run in _by_run(loops.fetches).items():
        (others if key in loops.loaders else own).extend((key, turn) for turn in _turns(run, loops, until_ns))
    return own, others


def _by_key(keyed: list[_Keyed]) -> Turns:
    found: Turns = defaultdict(list)
    for key, turn in sorted(keyed, key=lambda each: each[1].begin_ns):
        if (before := found[key]) and before[-1].end_ns > turn.begin_ns:  # left, while its iterator is kept
            before[-1] = before[-1]._replace(end_ns=turn.begin_ns)
        found[key].append(turn)
    return dict(found)


def _by_run(fetches: Sequence[Fetch]) -> dict[tuple[int, int], list[Fetch]]:
    runs: dict[tuple[int, int], list[Fetch]] = defaultdict(list)
    for fetch in fetches:
        runs[fetch.key, fetch.run].append(fetch)
    return runs


def _turns(run: list[Fetch], loops: LoopRecord, until_ns: int) -> list[Turn]:
    last = run[-1]
    over = min(max(loops.ended_ns.get(last.run, until_ns), last.time_ns), until_ns)
    ends = [*(fetch.time_ns for fetch in run[1:]), over]
    lasts = [False] * (len(run) - 1) + [last.run not in loops.ended_ns or last.run in loops.left_late]
    return [
        Turn(fetch.time_ns, end, fetch.run, fetch.samples, is_open, fetch.loader)
        for fetch, end, is_open in zip(run, ends, lasts, strict=True)
    ]


def _within(others: list[_Keyed], own: list[_Keyed], loops: LoopRecord) -> list[_Keyed]:
    """Loops over loaders, each turn cut off where the turn of the cell's own loop around it ends."""
    cells = sorted((turn for _, turn in own), key=_begin)
    around: list[Turn] = []
    found, index = [], 0
    for key, turn in sorted(others, key=lambda each: each[1].begin_ns):
        while index < len(cells) and cells[index].begin_ns <= turn.begin_ns:
            _leave(around, cells[index].begin_ns)
            around.append(cells[index])
            index += 1
        _leave(around, turn.begin_ns)
        if not around:
            found.append((key, turn))
        elif loops.made_ns[turn.run] >= around[-1].begin_ns:
            end = min(turn.end_ns, around[-1].end_ns)
            found.append((key, turn._replace(end_ns=end)))
    return found


def _leave(around: list[Turn], time_ns: int) -> None:
    while around and around[-1].end_ns <= time_ns:
        around.pop()
