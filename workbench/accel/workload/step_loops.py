"""What is the loop over data, and what a step: the one place that decides it, for every nest of loops.

A step ends with a step of the optimizer that counts (else with a backward pass, else with a model's call). The *loop over
data* is the innermost loop around that end whose turns hold one end each at most, and together all that the step needed: the
batches that were fetched for it, the model calls whose graphs a backward went through, and the backward passes themselves. A
step lasts from the first fetch after the turn of the step before, in the same run of that loop, to the next fetch or to where the
loop was left; so it takes several turns where gradients are accumulated. A loop that only calls models in some of its turns, and
goes backward in others, gives way to one around it whose single turn holds all. Where no loop is so, a step lasts from end to
end. What lies between two runs of the loop (validation, the rollouts of a policy) belongs to no step.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from accel.workload.loop_turns import Turn, Turns, turn_at

_ENOUGH = 1000  # steps that a loop is judged by: how it is nested does not change


class Span(NamedTuple):
    """One step. `is_turn`: it begins and ends with turns of a loop; `is_open`: that loop's own end is not known."""

    begin_ns: int
    end_ns: int
    is_turn: bool = False
    is_open: bool = False


class Needs(NamedTuple):
    """When, in order: backward passes, calls of models that a backward used, and the fetches of batches for them."""

    passes: Sequence[int]
    calls: Sequence[int]
    fetches: Sequence[int]


Chain = tuple[int, ...]  # keys of the loops around a moment, innermost last


def find_spans(ends: Sequence[int], needs: Needs, turns: Turns, first_ns: int) -> list[Span]:
    """One span for each end of a step, in order."""
    loops = _Loops(ends, needs, turns)
    chains = [loops.chain(end) for end in ends]
    members: dict[Chain, list[int]] = defaultdict(list)
    for number, chain in enumerate(chains):
        members[chain].append(number)
    chosen = {chain: loops.choose(chain, numbers) for chain, numbers in members.items()}
    spans: list[Span] = []
    for number, (end, chain) in enumerate(zip(ends, chains, strict=True)):
        after = spans[-1].end_ns if spans else min(first_ns, end)
        key = chosen[chain]
        if key is None:
            spans.append(Span(after, end))
            continue
        group = loops.group(key, number)
        spans.append(
            Span(max(group[0].begin_ns, after if spans else 0), group[-1].end_ns, True, group[-1].is_open)
        )
    return spans


class _Loops:
    def __init__(self, ends: Sequence[int], needs: Needs, turns: Turns) -> None:
        self._ends, self._needs, self._turns = ends, needs, turns
        self._all = sorted((*needs.passes, *needs.calls, *needs.fetches))
        self._crowded = {key for key in turns if self._is_crowded(key)}
        self._begun: dict[int, int] = {}  # run → its first fetch
        for each in turns.values():
            for turn in each:
                self._begun.setdefault(turn.run, turn.begin_ns)

    def chain(self, time_ns: int) -> Chain:
        around = (
            (turn.begin_ns, key) for key, turns in self._turns.items() if (turn := turn_at(turns, time_ns))
        )
        return tuple(key for _, key in sorted(around))

    def choose(self, chain: Chain, numbers: Sequence[int]) -> int | None:
        judged = numbers if len(numbers) <= 2 * _ENOUGH else [*numbers[:_ENOUGH], *numbers[-_ENOUGH:]]
        candidates = [key for key in reversed(chain) if key not in self._crowded]
        for is_strict in (True, False):
            for key in candidates:
                if all(self._fits(key, chain, number, is_strict=is_strict) for number in judged):
                    return key
        return None

    def group(self, key: int, number: int) -> list[Turn]:
        """The turns of a step: those of the same run since the step before."""
        turns = self._turns[key]
        last = bisect_right(turns, self._ends[number], key=_begin) - 1
        first, before = last, self._before(number)
        while first and turns[first - 1].run == turns[last].run and turns[first - 1].end_ns > before:
            if turns[first - 1].holds(before):
                break
            first -= 1
        return list(turns[first : last + 1])

    def _before(self, number: int) -> int:
        return self._ends[number - 1] if number else -1

    def _is_crowded(self, key: int) -> bool:
        return any(_count(self._ends, turn.begin_ns, turn.end_ns) > 1 for turn in self._turns[key])

    def _fits(self, key: int, chain: Chain, number: int, *, is_strict: bool) -> bool:
        """Whether the turns of this loop hold all that the step needed; if not strict, leftovers of other runs are no matter."""
        group = self.group(key, number)
        if is_strict and not all(self._goes_backward(turn) for turn in group[:-1]):
            return False
        end, before = self._ends[number], self._before(number)
        outermost = turn_at(self._turns[chain[0]], end)
        assert outermost is not None
        since = max(before + 1, self._begun[outermost.run])
        if not self._has_pass(group) and _count(self._needs.passes, since, end):
            return False
        return all(
            any(turn.holds(need) for turn in (group[0], group[-1]))
            or self._is_held(key, need, group, before, is_strict)
            for need in _within(self._all, since, end)
        )

    def _is_held(self, key: int, need: int, group: Sequence[Turn], before: int, is_strict: bool) -> bool:
        turn = turn_at(self._turns[key], need)
        if turn is not None and (turn.run == group[0].run or turn.holds(before) or not is_strict):
            return True
        around = (
            turn_at(turns, need) for turns in self._turns.values()
        )  # what came after the end, in that step's turn
        return any(
            turn is not None and turn.holds(before) and not turn.holds(group[-1].begin_ns) for turn in around
        )

    def _goes_backward(self, turn: Turn) -> bool:
        calls = _count(self._needs.calls, turn.begin_ns, turn.end_ns)
        return not calls or self._has_pass([turn])

    def _has_pass(self, group: Sequence[Turn]) -> bool:
        return any(_count(self._needs.passes, turn.begin_ns, turn.end_ns) for turn in group)


def _begin(turn: Turn) -> int:
    return turn.begin_ns


def _count(times: Sequence[int], begin: int, end: int) -> int:
    return bisect_left(times, end) - bisect_left(times, begin)


def _within(times: Sequence[int], begin: int, end: int) -> Iterator[int]:
    return iter(times[bisect_left(times, begin) : bisect_left(times, end)])
