"""On how many batches a step trains, and on how many samples: counted from what was drawn and what went backward."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from accel.workload.loop_turns import Turn, Turns, turn_at

if TYPE_CHECKING:
    from accel.workload.phase_record import BackwardPass, ForwardCall


class Trained(NamedTuple):
    """What one step trained on. `samples` is 0 where nothing tells, `loader` the id of who gave its last batch, 0 for none."""

    batches: int
    samples: int
    loader: int = 0


class Passes:
    """The backward passes of a run, with the model calls before them, step by step.

    A line that goes backward again, after a model was called again, trains on a further batch: two losses of one batch, a head
    after the other, or a GAN's two models are one. What was cleared, or used up by another optimizer, counts no more.
    """

    def __init__(
        self, passes: Sequence[BackwardPass], calls: Sequence[ForwardCall], cleared: Sequence[int]
    ) -> None:
        adding = [
            each for each in passes if each.adds
        ]  # not those of autograd.grad: a penalty, an inner loop
        self._passes = adding or list(passes)
        self._times = [each.time_ns for each in self._passes]
        self._calls, self._call_times = calls, [call.begin_ns for call in calls]
        self._cleared = cleared  # when gradients were cleared or another optimizer had stepped

    def any_within(self, begin_ns: int, end_ns: int) -> bool:
        """Whether anything went backward then."""
        return bisect_left(self._times, end_ns) > bisect_left(self._times, begin_ns)

    def batches(self, begin_ns: int, end_ns: int) -> tuple[Trained, list[int]]:
        """Batches of a step that lies between two ends, with their samples as the models' inputs tell, and the passes' times."""
        first, last = (bisect_left(self._cleared, time) for time in (begin_ns, end_ns))
        for begin, end in reversed([*pairwise([begin_ns, *self._cleared[first:last], end_ns])]):
            if self.any_within(begin, end):
                return max(self._of_lines(max(begin_ns, self._last_before(begin)), begin, end))
        return Trained(1, self._largest_call(begin_ns, end_ns)), []

    def _last_before(self, time_ns: int) -> int:
        """The pass before that moment: gradients are often cleared between calling the model and going backward."""
        index = bisect_left(self._times, time_ns)
        return self._times[index - 1] if index else 0

    def _of_lines(self, called_ns: int, begin_ns: int, end_ns: int) -> Iterator[tuple[Trained, list[int]]]:
        lines: dict[tuple[str, int], list[int]] = defaultdict(list)
        index = bisect_left(self._times, begin_ns)
        while index < len(self._times) and self._times[index] < end_ns:
            lines[self._passes[index].place].append(self._times[index])
            index += 1
        for times in lines.values():
            yield self._of_line([called_ns, *times]), times

    def _of_line(self, times: list[int]) -> Trained:
        models: dict[int, list[int]] = defaultdict(list)  # samples of its largest call, before each pass
        for begin, end in pairwise(times):
            largest: dict[int, int] = {}
            for call in self._between(begin, end):
                largest[call.model] = max(largest.get(call.model, 0), call.samples)
            for model, samples in largest.items():
                models[model].append(samples)
        counted = [Trained(len(samples), sum(samples)) for samples in models.values()]
        return max(counted, default=Trained(len(times) - 1, 0))

    def _largest_call(self, begin_ns: int, end_ns: int) -> int:
        return max((call.samples for call in self._between(begin_ns, end_ns)), default=0)

    def _between(self, begin_ns: int, end_ns: int) -> Sequence[ForwardCall]:
        return self._calls[bisect_left(self._call_times, begin_ns) : bisect_left(self._call_times, end_ns)]


def trained_on(ends: Sequence[int], passes: Passes, batches: Turns) -> list[Trained]:
    """For each end of a step what the step trained on.

    Samples are those that a loader gave. What any other loop gives may be a batch, one sample or a learning rate: there the
    first dimension of what the models got counts.

    >>> trained_on(ends, Passes(marks.passes, calls, []), batches_of(marks.loops, until_ns))
    [Trained(batches=2, samples=128), Trained(batches=2, samples=70)]
    """
    found = []
    for before, end in pairwise([0, *ends]):
        counted, times = passes.batches(before, end)
        drawn, loader = _drawn(times or [end], counted.batches, passes, batches)
        samples = drawn or counted.samples if loader else counted.samples or drawn
        found.append(Trained(counted.batches, samples, loader))
    return found


def _drawn(times: Sequence[int], count: int, passes: Passes, batches: Turns) -> tuple[int, int]:
    """Samples of the batches that were drawn last before each pass, and of those drawn ahead of them; and their loader."""
    turns: dict[tuple[int, int], Turn] = {}
    for time in times:
        around = [(turn.begin_ns, key) for key, each in batches.items() if (turn := turn_at(each, time))]
        if around:
            begin, key = max(around)
            turns[begin, key] = batches[key][_index(batches[key], begin)]
    if not turns:
        return 0, 0
    drawn = [turn.samples for turn in turns.values()]
    if len(turns) < count:
        begin, key = min(turns)
        drawn += _ahead(batches[key], _index(batches[key], begin), count - len(turns), passes)
    return sum(drawn), turns[max(turns)].loader


def _ahead(turns: Sequence[Turn], index: int, most: int, passes: Passes) -> list[int]:
    """Samples of the batches drawn one after the other before this one, with nothing trained in between."""
    ahead: list[int] = []
    while index and len(ahead) < most:
        turn, following = turns[index - 1], turns[index]
        if turn.run != following.run or passes.any_within(turn.begin_ns, turn.end_ns):
            break
        ahead.append(turn.samples)
        index -= 1
    return ahead


def _index(turns: Sequence[Turn], begin_ns: int) -> int:
    return bisect_left(turns, begin_ns, key=_begin)


def _begin(turn: Turn) -> int:
    return turn.begin_ns
