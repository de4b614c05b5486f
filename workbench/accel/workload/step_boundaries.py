"""Steps from marks: where each begins and ends, and where its time went. Pure functions over a flat list."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Literal, NamedTuple

from accel.workload.phase_marks import BoundaryNote, Mark
from accel.workload.workload import Boundary

Rule = Literal["loop over data", "optimizer step", "backward", "forward", "none"]
_RULES: dict[Boundary, Rule] = {"optimizer": "optimizer step", "backward": "backward", "none": "forward"}


class Segment(NamedTuple):
    """A stretch of time that belongs to one phase alone, or to the gap between two."""

    begin_ns: int
    end_ns: int
    label: str


@dataclass(frozen=True)
class Step:
    """One step: its times in ns, and its exclusive time by phase or gap ("forward → backward")."""

    begin_ns: int
    end_ns: int
    phases_ns: dict[str, int]
    is_warm_up: bool = False
    is_profiled: bool = False
    is_outlier: bool = False

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.begin_ns


@dataclass(frozen=True)
class Steps:
    """All steps of a run, with the rule that found them.

    >>> steps = find_steps(marks.marks, boundary_notes=marks.boundary_notes, first_optimizer=id(optimizer))
    >>> steps.median_ms, steps.shares()["forward"]

    `counts` has how often each phase began, "recompute" being a forward inside backward. A warm-up step is the
    first, or one in which graphs were compiled; `timed` are the steps the figures come from.
    """

    steps: tuple[Step, ...]
    boundary: Boundary
    rule: Rule
    accumulation: int
    counts: dict[str, int]

    @property
    def boundaries_ns(self) -> list[tuple[int, int]]:
        return [(step.begin_ns, step.end_ns) for step in self.steps]

    @property
    def timed(self) -> tuple[Step, ...]:
        """Steps free of warm-up and profiler; when a run is too short for that, the best there are."""
        warm = [step for step in self.steps if not step.is_warm_up]
        return tuple([step for step in warm if not step.is_profiled] or warm or self.steps)

    @property
    def is_timed_free(self) -> bool:
        """Whether `timed` are steps without warm-up and profiler, or only the best there were."""
        return any(not step.is_warm_up and not step.is_profiled for step in self.steps)

    @property
    def median_ms(self) -> float:
        """Median time of the timed steps in ms; nan when there is no step."""
        return median(step.duration_ns for step in self.timed) / 1e6 if self.steps else float("nan")

    def shares(self) -> dict[str, float]:
        """Share of the timed steps' time by phase and gap, largest first; outliers left out."""
        steps = [step for step in self.timed if not step.is_outlier]
        total: Counter[str] = Counter()
        for step in steps:
            total.update(step.phases_ns)
        whole = sum(total.values()) or 1
        return {label: ns / whole for label, ns in total.most_common()}

    def to_dict(self) -> dict[str, Any]:
        return {
            "rule": self.rule, "boundary": self.boundary, "accumulation": self.accumulation, "counts": self.counts,
            "median_ms": self.median_ms, "shares": self.shares(),
            "steps": [vars(step) for step in self.steps],
        }  # fmt: skip

    def __str__(self) -> str:
        if not self.steps:
            return "no steps found"
        shares = ", ".join(f"{label} {share:.0%}" for label, share in self.shares().items() if share >= 0.005)
        return f"{len(self.steps)} steps (by {self.rule}) of {self.median_ms:.2f} ms: {shares}"


def find_steps(
    marks: Sequence[Mark], *, boundary_notes: Sequence[BoundaryNote] = (), first_optimizer: int | None = None
) -> Steps:
    """Find the steps of a run; `first_optimizer` is the id of the optimizer that stepped first, if any did.

    A step ends where a worker's step ends: with the first optimizer's step, else with a backward (`boundary`). A
    loop whose turns hold one such event each moves the cuts to its fetches: a step begins with its own data.
    """
    boundary, events = _events(marks, first_optimizer)
    chunks = exclusive_segments(marks)
    loop = _loop_of(marks, events)
    if loop is not None:
        rule: Rule = "loop over data"
        spans, accumulation = _spans_of_loop(_turns(marks, loop), events, _begins(marks, "backward"), chunks)
    else:
        rule = _RULES[boundary] if events else "none"
        spans, accumulation = _spans_between(marks, events), 1
    steps = [_fill(span, chunks) for span in spans]
    steps = _flagged(steps, events, boundary_notes, is_cut_at_event=loop is None)
    return Steps(tuple(steps), boundary, rule, accumulation, _counts(marks))


def exclusive_segments(marks: Sequence[Mark]) -> list[Segment]:
    """The run in stretches of one phase each: the innermost phase has the time, gaps are named by neighbours."""
    segments: list[Segment] = []
    stack: list[str] = []
    since, last = 0, ""
    for mark in marks:
        if stack:
            segments.append(Segment(since, mark.time_ns, stack[-1]))
        elif last:
            segments.append(Segment(since, mark.time_ns, f"{last} → {mark.phase}"))
        if mark.begins:
            stack.append(mark.phase)
        elif stack:
            last = stack.pop()
        since = mark.time_ns
    return segments


def _events(marks: Sequence[Mark], first_optimizer: int | None) -> tuple[Boundary, list[int]]:
    """When steps end: times of the events that end one, and what kind they are."""
    stepped = [
        m.time_ns for m in marks if not m.begins and m.phase == "optimizer" and m.key == first_optimizer
    ]
    if stepped:
        return "optimizer", stepped
    backward = [m.time_ns for m in marks if not m.begins and m.phase == "backward"]
    if backward:
        return "backward", backward
    return "none", [m.time_ns for m in marks if not m.begins and m.phase == "forward"]


def _begins(marks: Sequence[Mark], phase: str) -> list[int]:
    return [mark.time_ns for mark in marks if mark.begins and mark.phase == phase]


def _turns(marks: Sequence[Mark], key: int) -> list[tuple[int, int]]:
    """From each fetch of a loop to its next; the last turn lasts to the end of the run."""
    begins = [mark.time_ns for mark in marks if mark.begins and mark.phase == "data" and mark.key == key]
    return list(zip(begins, [*begins[1:], marks[-1].time_ns + 1], strict=True))


def _loop_of(marks: Sequence[Mark], events: Sequence[int]) -> int | None:
    """The innermost loop over data whose turns hold at most one event each, and hold all events together."""
    best: tuple[int, int] | None = None
    for key in {mark.key for mark in marks if mark.phase == "data" and mark.key >= 0} if events else ():
        turns = _turns(marks, key)
        held = [bisect_left(events, end) - bisect_left(events, begin) for begin, end in turns]
        if sum(held) == len(events) and max(held) == 1:
            begin = turns[held.index(1)][0]
            best = max(best, (begin, key)) if best else (begin, key)
    return best[1] if best else None


def _spans_of_loop(
    turns: list[tuple[int, int]], events: Sequence[int], backward: Sequence[int], segments: Sequence[Segment]
) -> tuple[list[tuple[int, int]], int]:
    """Steps as groups of turns that end with an event; turns without a backward belong to no step."""
    spans: list[tuple[int, int]] = []
    sizes: list[int] = []
    first: int | None = None
    size = 0
    for begin, end in turns:
        ends_step = _any_within(events, begin, end)
        if ends_step or _any_within(backward, begin, end):
            first, size = (begin if first is None else first), size + 1
        if ends_step and first is not None:
            spans.append((first, end))
            sizes.append(size)
            first, size = None, 0
    if (
        spans and spans[-1][1] == turns[-1][1]
    ):  # the loop was left before it fetched again: end with the last event's phase
        spans[-1] = (spans[-1][0], min(spans[-1][1], max(spans[-1][0], _end_of_phase(events[-1], segments))))
    return spans, round(median(sizes)) if sizes else 1


def _end_of_phase(event: int, segments: Sequence[Segment]) -> int:
    """The end of the outermost phase an event lies in (a scaler's step goes on after the optimizer's)."""
    for index in range(bisect_left(segments, event, key=_begin_ns), len(segments)):
        if " → " in segments[index].label:
            return segments[index].begin_ns
    return segments[-1].end_ns


def _spans_between(marks: Sequence[Mark], events: Sequence[int]) -> list[tuple[int, int]]:
    if not events:
        return []
    return list(zip([min(marks[0].time_ns, events[0]), *events], events, strict=False))


def _any_within(times: Sequence[int], begin: int, end: int) -> bool:
    return bisect_left(times, end) > bisect_left(times, begin)


def _fill(span: tuple[int, int], segments: Sequence[Segment]) -> Step:
    """A step with the parts of all segments that lie inside it."""
    begin, end = span
    phases: dict[str, int] = {}
    for index in range(max(bisect_right(segments, begin, key=_begin_ns) - 1, 0), len(segments)):
        segment = segments[index]
        if segment.begin_ns >= end:
            break
        inside = min(segment.end_ns, end) - max(segment.begin_ns, begin)
        if inside > 0:
            phases[segment.label] = phases.get(segment.label, 0) + inside
    return Step(begin, end, phases)


def _begin_ns(segment: Segment) -> int:
    return segment.begin_ns


def _flagged(
    steps: list[Step], events: Sequence[int], notes: Sequence[BoundaryNote], *, is_cut_at_event: bool
) -> list[Step]:
    """Mark warm-up, profiled and outlying steps; each step holds one event, which its note follows."""
    times = [note.time_ns for note in notes]
    flagged: list[Step] = []
    after_profiler = False
    for index, (step, event) in enumerate(zip(steps, events, strict=True)):
        position = bisect_left(times, event)
        is_noted = position < len(times) and (index + 1 == len(events) or times[position] < events[index + 1])
        profiled = is_noted and notes[position].profiled
        compiled = is_noted and notes[position].compiled
        # Stopping the profiler takes time right after the last profiled step: part of the next one when cut at events.
        is_touched = profiled or (after_profiler and is_cut_at_event)
        flagged.append(replace(step, is_warm_up=index == 0 or compiled, is_profiled=is_touched))
        after_profiler = profiled
    return with_outliers(flagged)


def with_outliers(steps: list[Step]) -> list[Step]:
    """Outlier: above the timed steps by six times their median deviation, and at least a fifth longer."""
    times = [step.duration_ns for step in steps if not step.is_warm_up and not step.is_profiled]
    if len(times) < 5:
        return steps
    middle = median(times)
    spread = 1.4826 * median(abs(time - middle) for time in times)
    limit = max(middle + 6 * spread, 1.2 * middle)
    return [replace(step, is_outlier=step.duration_ns > limit) for step in steps]


def _counts(marks: Sequence[Mark]) -> dict[str, int]:
    """How often each phase began; a forward inside backward counts as "recompute"."""
    counts: Counter[str] = Counter()
    backward_open = 0
    for mark in marks:
        if mark.phase == "backward":
            backward_open += 1 if mark.begins else -1
        if mark.begins:
            counts["recompute" if backward_open and mark.phase in ("forward", "loss") else mark.phase] += 1
    return dict(counts)
