"""Steps from marks: where each begins and ends, and where its time went. Pure functions over a flat list."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Literal, NamedTuple

from accel.units import percent
from accel.workload.loop_record import LoopRecord
from accel.workload.loop_turns import Turns, batches_of, turns_of
from accel.workload.phase_record import BackwardPass, BoundaryNote, ForwardCall, Mark
from accel.workload.step_batches import Passes, Trained, trained_on
from accel.workload.step_loops import Needs, Span, find_spans
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
    has_compiled: bool = False
    is_profiled: bool = False
    is_outlier: bool = False
    batches: int = 1
    samples: int = 0  # that it trained on; 0 where nothing tells

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.begin_ns


@dataclass(frozen=True)
class Steps:
    """All steps of a run, with the rule that found them.

    >>> steps = find_steps(marks.marks, Watched(marks.step_ends, marks.passes))
    >>> steps.median_ms, steps.shares()["forward"]

    `counts` has how often each phase began. A warm-up step is the
    first, or one in which graphs were compiled or a plan was applied; `timed` are the steps the figures come from.
    """

    steps: tuple[Step, ...]
    boundary: Boundary
    rule: Rule
    accumulation: int
    counts: dict[str, int]
    loader: int | None = (
        None  # id of the one that most steps took their last batch from; None where they took it elsewhere
    )

    @property
    def boundaries_ns(self) -> list[tuple[int, int]]:
        return [(step.begin_ns, step.end_ns) for step in self.steps]

    @property
    def timed(self) -> tuple[Step, ...]:
        """Steps free of warm-up and profiler; when a run is too short for that, the best there are."""
        warm = [step for step in self.steps if not step.is_warm_up]
        return tuple([step for step in warm if not step.is_profiled] or warm or self.steps)

    @property
    def median_ms(self) -> float:
        """Median time of the timed steps in ms; nan when there is no step."""
        return median(step.duration_ns for step in self.timed) / 1e6 if self.steps else float("nan")

    @property
    def samples_per_step(self) -> int | None:
        """Samples that a usual step trains on: the median, which an epoch's smaller last batch does not move."""
        known = [step.samples for step in self.steps if step.samples]
        return round(median(known)) if known else None

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
        shares = ", ".join(
            f"{label} {percent(share, 0)}" for label, share in self.shares().items() if share >= 0.005
        )
        return f"{len(self.steps)} steps (by {self.rule}) of {self.median_ms:.2f} ms: {shares}"


@dataclass(frozen=True)
class Watched:
    """What was seen beside the marks: what the steps of a run are told from."""

    step_ends: Sequence[int] = ()  # when an optimizer's step ended one
    passes: Sequence[BackwardPass] = ()
    calls: Sequence[ForwardCall] = ()
    used_calls: Set[int] = frozenset()  # by when they began: those whose graph a backward went through
    loops: LoopRecord = field(default_factory=LoopRecord)
    notes: Sequence[BoundaryNote] = ()


def find_steps(marks: Sequence[Mark], watched: Watched | None = None) -> Steps:
    """Find the steps of a run: `step_loops.py` has the rule.

    A step ends where a worker's step ends: with an optimizer's step, else with a backward (`boundary`).
    """
    watched = watched or Watched()
    boundary, ends, calls = _ends(marks, watched)
    if not ends:
        return Steps((), "none", "none", 1, _counts(marks))
    until = marks[-1].time_ns + 1
    batches = batches_of(watched.loops, until)
    needs = _needs(boundary, watched.passes, calls, ends, batches)
    turns = turns_of(watched.loops, until)
    if boundary == "none":
        ends = _ends_of_turns(ends, turns)
    spans = find_spans(ends, needs, turns, marks[0].time_ns)
    segments, fetched = exclusive_segments(marks), _begins(marks, "data")
    trained = trained_on(ends, Passes(watched.passes, calls, _cleared(marks, ends)), batches)
    steps = [
        replace(
            _fill(_closed(span, end, segments, fetched), segments), batches=each.batches, samples=each.samples
        )
        for span, end, each in zip(spans, ends, trained, strict=True)
    ]
    steps = _flagged(steps, ends, watched.notes, [not span.is_turn for span in spans])
    in_turns = sum(span.is_turn for span in spans)
    rule: Rule = "loop over data" if 2 * in_turns > len(spans) else _RULES[boundary]
    accumulation = round(median(each.batches for each in trained)) if boundary == "optimizer" else 1
    return Steps(tuple(steps), boundary, rule, accumulation, _counts(marks), _loader(trained))


def _loader(trained: Sequence[Trained]) -> int | None:
    """The loader that was used first, or whose loop is longest, may be that of validation."""
    loader, count = Counter(each.loader for each in trained).most_common(1)[0]
    return loader if loader and 2 * count >= len(trained) else None


def _ends(marks: Sequence[Mark], watched: Watched) -> tuple[Boundary, Sequence[int], Sequence[ForwardCall]]:
    """When steps end, what kind of event that is, and the model calls that count."""
    calls = [call for call in watched.calls if call.begin_ns in watched.used_calls]
    if watched.step_ends:
        return "optimizer", watched.step_ends, calls
    backward = [m.time_ns for m in marks if not m.begins and m.phase == "backward"]
    if backward:
        return "backward", backward, calls
    return "none", [m.time_ns for m in marks if not m.begins and m.phase == "forward"], watched.calls


def _needs(
    boundary: Boundary,
    passes: Sequence[BackwardPass],
    calls: Sequence[ForwardCall],
    ends: Sequence[int],
    batches: Turns,
) -> Needs:
    begun = [each.time_ns for each in passes]
    called = [call.begin_ns for call in calls]
    work = sorted((*begun, *called, *ends))
    fetched = [
        turn.begin_ns
        for each in batches.values()
        for turn in each
        if _any_within(work, turn.begin_ns, turn.end_ns)
    ]
    return Needs(begun, called, sorted(fetched))


def _cleared(marks: Sequence[Mark], ends: Sequence[int]) -> list[int]:
    """When gradients were cleared, or used up by an optimizer whose steps end none."""
    own = frozenset(ends)
    return [
        mark.time_ns for mark in marks
        if not mark.begins and mark.phase in ("optimizer", "zero_grad") and mark.time_ns not in own
    ]  # fmt: skip


def _ends_of_turns(ends: Sequence[int], turns: Turns) -> Sequence[int]:
    """Of a cell that only calls models: the last call of each batch, where a loop fetches them for all calls."""
    best: list[int] = []
    for each in turns.values():
        held = [within for turn in each if (within := _within(ends, turn.begin_ns, turn.end_ns))]
        if sum(map(len, held)) == len(ends) and any(turn.samples for turn in each) and len(held) > len(best):
            best = [within[-1] for within in held]
    return best or ends


def _closed(span: Span, end: int, segments: Sequence[Segment], fetched: Sequence[int]) -> tuple[int, int]:
    """Where nobody knows when the loop was left, its last step ends as another loop begins, or with the phase of its end."""
    if not span.is_open:
        return span.begin_ns, min(span.end_ns, segments[-1].end_ns)
    following = bisect_left(fetched, end)
    over = fetched[following] if following < len(fetched) else _end_of_phase(end, segments)
    return span.begin_ns, min(span.end_ns, max(span.begin_ns, over))


def _begins(marks: Sequence[Mark], phase: str) -> list[int]:
    return [mark.time_ns for mark in marks if mark.begins and mark.phase == phase]


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


def _end_of_phase(event: int, segments: Sequence[Segment]) -> int:
    """The end of the outermost phase an event lies in (a scaler's step goes on after the optimizer's)."""
    for index in range(bisect_left(segments, event, key=_begin_ns), len(segments)):
        if " → " in segments[index].label:
            return segments[index].begin_ns
    return segments[-1].end_ns


def _any_within(times: Sequence[int], begin: int, end: int) -> bool:
    return bisect_left(times, end) > bisect_left(times, begin)


def _within(times: Sequence[int], begin: int, end: int) -> Sequence[int]:
    return times[bisect_left(times, begin) : bisect_left(times, end)]


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
    steps: list[Step], ends: Sequence[int], notes: Sequence[BoundaryNote], are_cut_at_ends: Sequence[bool]
) -> list[Step]:
    """Mark warm-up, profiled and outlying steps; the note of a step follows its end."""
    times = [note.time_ns for note in notes]
    flagged: list[Step] = []
    after_profiler = False
    for index, (step, end, is_cut_at_end) in enumerate(zip(steps, ends, are_cut_at_ends, strict=True)):
        position = bisect_left(times, end)
        is_noted = position < len(times) and (index + 1 == len(ends) or times[position] < ends[index + 1])
        profiled = is_noted and notes[position].profiled
        compiled = is_noted and notes[position].compiled
        is_warm_up = index == 0 or compiled or (is_noted and notes[position].applied)
        # Stopping the profiler takes time right after the last profiled step: part of the next one when cut at its end.
        is_touched = profiled or (after_profiler and is_cut_at_end)
        flagged.append(replace(step, is_warm_up=is_warm_up, has_compiled=compiled, is_profiled=is_touched))
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
    """How often each phase began."""
    return dict(Counter(mark.phase for mark in marks if mark.begins))
