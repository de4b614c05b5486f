"""Step times and phase shares of a trace, from its ranges: what the marks tell of a live run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from accel.profiling.kept_steps import step_borders
from accel.profiling.step_timing import MOST_STEPS, OneStep, PhaseShare, StepTiming
from accel.workload.step_boundaries import Step, with_outliers

if TYPE_CHECKING:
    from accel.profiling.profiled_events import ProfiledEvents


def read_trace_timing(events: ProfiledEvents) -> StepTiming:
    """Time the steps that were kept; all of them ran under the profiler.

    >>> read_trace_timing(read_events(columns)).step_ms
    12.3
    """
    kept, columns = events.kept, events.columns
    ends = columns.start_ns + columns.duration_ns
    steps = _steps(events) if kept.has_steps else []
    steps = [replace(step, is_warm_up=i < kept.dropped) for i, step in enumerate(steps)]
    steps = with_outliers(steps)
    timed = [step for step in steps if not step.is_warm_up]
    shared = [step for step in timed if not step.is_outlier] or timed or _whole(events)
    return StepTiming(
        times_ms=tuple(step.duration_ns / 1e6 for step in timed),
        phases=_shares(shared),
        warmup_steps=kept.dropped,
        profiled_steps=0,
        outlier_steps=sum(step.is_outlier for step in timed),
        unit="step",
        is_under_profiler=True,
        includes_warmup=not kept.dropped and kept.has_steps,
        cell_ms=float(ends.max() - columns.start_ns.min()) / 1e6,
        each_step=tuple(_one(step, steps[0]) for step in steps[:MOST_STEPS]),
        whole="trace",
    )


def _steps(events: ProfiledEvents) -> list[Step]:
    """Each step's time by phase."""
    return _between(events, step_borders(events.columns, events.found.own_thread).tolist())


def _whole(events: ProfiledEvents) -> list[Step]:
    return _between(events, [events.kept.from_ns, events.kept.until_ns])


def _between(events: ProfiledEvents, borders: list[int]) -> list[Step]:
    """Cut the timeline at the borders, and add up by name what lies between two of them."""
    import numpy as np

    timeline = events.found.timeline
    cuts = np.unique(np.append(timeline.starts, borders))
    cuts = cuts[(cuts >= borders[0]) & (cuts < borders[-1])]
    lengths = np.diff(np.append(cuts, borders[-1])).tolist()
    step = (np.searchsorted(borders, cuts, side="right") - 1).tolist()
    phases: list[Counter[str]] = [Counter() for _ in borders[1:]]
    for number, name, length in zip(step, timeline.at(cuts).tolist(), lengths, strict=True):
        phases[number][name] += length
    return [
        Step(begin, end, dict(found)) for begin, end, found in zip(borders, borders[1:], phases, strict=False)
    ]


def _shares(steps: list[Step]) -> tuple[PhaseShare, ...]:
    total: Counter[str] = Counter()
    for step in steps:
        total.update(step.phases_ns)
    whole = sum(total.values()) or 1
    found = (PhaseShare(name, ns / whole, ns / len(steps) / 1e6) for name, ns in total.items() if ns)
    return tuple(sorted(found, key=lambda phase: -phase.share))


def _one(step: Step, first: Step) -> OneStep:
    phases = tuple((name, ns / 1e6) for name, ns in step.phases_ns.items())
    begin_ms = (step.begin_ns - first.begin_ns) / 1e6
    return OneStep(begin_ms, step.duration_ns / 1e6, phases, step.is_warm_up, False, step.is_outlier)
