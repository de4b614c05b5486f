"""How long a step takes and where its time goes, from the marks, without the profiler's steps if there are others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median, quantiles
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from accel.workload.capture import Recording
    from accel.workload.step_boundaries import Step, Steps

MOST_STEPS = 2000  # kept one by one: a picture shows no more, and a long run's would fill the notebook
CELL_START, CELL_END = "the start of the cell", "the end of the cell"


@dataclass(frozen=True)
class PhaseShare:
    """One phase, or the gap between two ("forward → backward"): its share of the time, and ms per step."""

    name: str
    share: float
    ms: float

    @property
    def is_gap(self) -> bool:
        """Whether this is the time between two phases."""
        return " → " in self.name


@dataclass(frozen=True)
class OneStep:
    """One step of the run as it was: when it began after the first one, how long it took, its phases and gaps in ms."""

    begin_ms: float
    ms: float
    phases: tuple[tuple[str, float], ...]
    is_warm_up: bool = False
    is_profiled: bool = False
    is_outlier: bool = False


@dataclass(frozen=True)
class StepTiming:
    """Step times and phase shares of a run.

    `times_ms` are the raw times that `step_ms` is the median of, in order. What was left out is counted: warm-up and
    profiled steps of times and shares, unusually slow ones (`outlier_steps`) of the shares. `unit` is "batch" for a
    cell that only runs forward. `is_under_profiler`: there were no others, so the times include the profiler's cost.
    `each_step` are the first 2,000 steps, those that were left out included. `added_ms` estimates the time that
    torch.profiler added to the cell: how much longer the profiled steps were than the others.
    """

    times_ms: tuple[float, ...]
    phases: tuple[PhaseShare, ...]
    warmup_steps: int
    profiled_steps: int
    outlier_steps: int
    unit: Literal["step", "batch"]
    is_under_profiler: bool
    includes_warmup: bool
    cell_ms: float
    each_step: tuple[OneStep, ...] = ()
    whole: Literal["cell", "trace"] = "cell"  # what was timed, for a run without steps
    added_ms: float = 0.0
    samples_per_s: float | None = None  # of all timed steps, divided by their time

    @property
    def steps(self) -> int:
        """How many times there are."""
        return len(self.times_ms)

    @property
    def step_ms(self) -> float:
        """Median time; NaN without a step."""
        return self._quartiles[1]

    @property
    def spread_ms(self) -> tuple[float, float]:
        """First and third quartile; NaN without a step."""
        return self._quartiles[0], self._quartiles[2]

    @property
    def _quartiles(self) -> tuple[float, float, float]:
        if len(self.times_ms) < 2:
            only = self.times_ms[0] if self.times_ms else float("nan")
            return only, only, only
        low, middle, high = quantiles(self.times_ms, n=4, method="inclusive")
        return low, middle, high


def read_timing(recording: Recording, window_ns: tuple[int, int] | None) -> StepTiming:
    """Time the steps that are free of warm-up and profiler, or the best there are.

    `window_ns` is when the profiler was open, its start and stop included. Without steps the shares are of the cell.
    """
    steps = _flag_profiled(recording.steps, window_ns)
    timed = steps.timed
    return StepTiming(
        times_ms=tuple(step.duration_ns / 1e6 for step in timed),
        phases=_phases(steps) if timed else _phases_of_cell(recording),
        warmup_steps=sum(step.is_warm_up and step not in timed for step in steps.steps),
        profiled_steps=sum(s.is_profiled and not s.is_warm_up and s not in timed for s in steps.steps),
        outlier_steps=sum(step.is_outlier for step in timed),
        unit="batch" if steps.boundary == "none" else "step",
        is_under_profiler=any(step.is_profiled for step in timed),
        includes_warmup=any(step.is_warm_up for step in timed),
        cell_ms=recording.duration_ms,
        added_ms=_added_ms(steps.steps, timed),
        each_step=_one_by_one(steps.steps[:MOST_STEPS]),
        samples_per_s=_samples_per_s(timed),
    )


def _added_ms(steps: Sequence[Step], timed: Sequence[Step]) -> float:
    profiled = [
        step.duration_ns / 1e6
        for step in steps
        if step.is_profiled and not step.has_compiled and step not in timed
    ]
    if not profiled:
        return 0.0
    usual_ms = median(step.duration_ns for step in timed) / 1e6
    return max(0.0, sum(profiled) - len(profiled) * usual_ms)


def _one_by_one(steps: Sequence[Step]) -> tuple[OneStep, ...]:
    return tuple(
        OneStep(
            begin_ms=(step.begin_ns - steps[0].begin_ns) / 1e6,
            ms=step.duration_ns / 1e6,
            phases=tuple((name, ns / 1e6) for name, ns in step.phases_ns.items()),
            is_warm_up=step.is_warm_up,
            is_profiled=step.is_profiled,
            is_outlier=step.is_outlier,
        )
        for step in steps
    )


def _flag_profiled(steps: Steps, window_ns: tuple[int, int] | None) -> Steps:
    """A step that overlaps the window paid for the profiler, if only for its stop."""
    if window_ns is None:
        return steps
    opened, closed = window_ns

    def flagged(step: Step) -> Step:
        return replace(
            step, is_profiled=step.is_profiled or (step.begin_ns < closed and step.end_ns > opened)
        )

    return replace(steps, steps=tuple(map(flagged, steps.steps)))


def _samples_per_s(timed: Sequence[Step]) -> float | None:
    samples = sum(step.samples for step in timed)
    return samples / sum(step.duration_ns for step in timed) * 1e9 if samples else None


def _phases(steps: Steps) -> tuple[PhaseShare, ...]:
    counted: Sequence[Step] = [step for step in steps.timed if not step.is_outlier] or steps.timed
    total: Counter[str] = Counter()
    for step in counted:
        total.update(step.phases_ns)
    return _shares(total, len(counted))


def _phases_of_cell(recording: Recording) -> tuple[PhaseShare, ...]:
    """A cell without a step: all its time, by phase; what comes before the first and after the last is named too."""
    from accel.workload.step_boundaries import exclusive_segments

    marks = recording.marks
    if not marks:
        return _shares({f"{CELL_START} → {CELL_END}": recording.ended_ns - recording.started_ns}, 1)
    total: Counter[str] = Counter()
    for segment in exclusive_segments(marks):
        total[segment.label] += segment.end_ns - segment.begin_ns
    total[f"{CELL_START} → {marks[0].phase}"] += marks[0].time_ns - recording.started_ns
    total[f"{marks[-1].phase} → {CELL_END}"] += recording.ended_ns - marks[-1].time_ns
    return _shares(total, 1)


def _shares(total_ns: Mapping[str, int], count: int) -> tuple[PhaseShare, ...]:
    whole = sum(total_ns.values()) or 1
    found = (PhaseShare(name, ns / whole, ns / count / 1e6) for name, ns in total_ns.items())
    return tuple(sorted(found, key=lambda phase: -phase.share))
